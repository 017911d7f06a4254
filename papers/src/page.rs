//! The report as one page with charts, which needs nothing but itself.
//!
//! The page holds the report's own JSON; `papers/assets/papers.js` makes tables and charts of it in the browser.

use anyhow::Result;
use serde_json::Value;

const PAGE: &str = include_str!("../assets/papers.html");
const SCRIPT: &str = include_str!("../assets/papers.js");

/// The page of `report`.
pub(super) fn of(report: &Value) -> Result<String> {
    // In a script, `</` could end it.
    let report = serde_json::to_string(report)?.replace("</", "<\\/");
    let parts = [("{{report}}", report.as_str()), ("{{script}}", SCRIPT)];
    let mut page =
        String::with_capacity(PAGE.len() + parts.iter().map(|(_, part)| part.len()).sum::<usize>());
    let mut rest = PAGE;
    for (place, part) in parts {
        let (before, behind) = rest.split_once(place).unwrap_or((rest, ""));
        page += before;
        page += part;
        rest = behind;
    }
    Ok(page + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_holds_the_report_and_all_that_it_needs() {
        let page = of(&json!({ "cpu": "</script><b>", "experiments": [] })).unwrap();
        assert!(!page.contains("</script><b>"), "what is measured is no markup");
        assert!(!page.contains("{{"), "a place was left empty");
        for load in ["src=\"http", "href=\"http", "@import", "fetch("] {
            assert!(!page.contains(load), "it loads something: {load}");
        }
        assert!(page.ends_with("</html>\n"));
        let data = page.split_once("id=\"report\">").unwrap().1.split_once("</script>").unwrap().0;
        let kept: Value = serde_json::from_str(data).unwrap();
        assert_eq!(kept["cpu"], "</script><b>");
    }
}
