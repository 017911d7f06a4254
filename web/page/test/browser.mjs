// A browser that does what its standard input says, a JSON object a line, and answers each with another:
// {"ok": VALUE, "at_ns": CLOCK_MONOTONIC} or {"error": SENTENCE}. lab/tests/traffic/page.rs says what. The argument is the
// program of the browser, which is looked for in PATH.
//
//   {"do": "open", "url", "width", "height", "scheme"}   another page in place of the one before
//   {"do": "shows", "script", "within"}                  waits until the script's value is true, for so many milliseconds
//   {"do": "value", "script"}                            the script's value
//   {"do": "click", "at"}, {"do": "select", "at", "option"}
//   {"do": "tab", "to"}                                  presses Tab until the element has the focus
//   {"do": "press", "key"}
//   {"do": "axe"}                                        what axe-core finds
//   {"do": "picture", "path"}                            the whole page as PNG
//   {"do": "complaints"}                                 errors of the page since it was opened, or since `forget`

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const program = (process.env.PATH ?? "").split(":").map((folder) => `${folder}/${process.argv[2]}`).find(existsSync);
const browser = await chromium.launch({
  executablePath: program,
  args: [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});

/** Milliseconds between two looks at a page. */
const LOOK_AGAIN = 15;
/** A page has fewer elements that take the focus. */
const TABS = 200;
let context, page, session, complaints;

/** The value of a script. A page's own rules forbid scripts from elsewhere, but not those of the debugger. */
async function value(script) {
  const told = { expression: script, returnByValue: true, awaitPromise: true };
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", told);
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

async function until(what, within, look) {
  const deadline = performance.now() + within;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`${what}: not within ${within} ms`);
    await new Promise((again) => setTimeout(again, LOOK_AGAIN));
  }
}

const deeds = {
  async open({ url, width, height, scheme }) {
    await context?.close();
    context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
    [page, complaints] = [await context.newPage(), []];
    session = await context.newCDPSession(page);
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    await until("a server", 20000, () => page.goto(url).then(() => true, () => false));
    complaints.length = 0;
  },
  shows: ({ script, within }) => until(script, within, () => value(script)),
  value: ({ script }) => value(script),
  click: ({ at }) => page.click(at, { timeout: 5000 }),
  select: ({ at, option }) => page.selectOption(at, option),
  async tab({ to }) {
    for (let tabs = 1; tabs <= TABS; tabs += 1) {
      await page.keyboard.press("Tab");
      if (await value(`document.activeElement.matches(${JSON.stringify(to)})`)) return tabs;
    }
    throw new Error(`Tab does not reach ${to}`);
  },
  press: ({ key }) => page.keyboard.press(key),
  async axe() {
    await value(`if (!window.axe) { ${axe} }\ntrue`);
    return value(`axe.run().then(({ violations }) => violations.map(({ id, help, nodes }) =>
      id + ": " + help + ": " + nodes.map(({ html, any }) => html + " " + any.map((one) => one.message).join("; ")).join(" | ")))`);
  },
  picture: ({ path }) => page.screenshot({ path, fullPage: true }).then(() => true),
  complaints: () => complaints ?? [],
  forget: () => { complaints.length = 0; },
};

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const asked = JSON.parse(line);
    const ok = (await deeds[asked.do](asked)) ?? null;
    answer = { ok, at_ns: Number(process.hrtime.bigint()) };
  } catch (error) {
    answer = { error: String(error.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
