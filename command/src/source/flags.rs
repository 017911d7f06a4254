//! The flags of `up`, as typed: a file, links, and what the table of keys has a flag for.

use std::path::PathBuf;

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use tabane_config::form::{Form, list};
use tabane_config::keys::{Flag, Row, Takes, rows};
use tabane_config::links::keys::parse_link_flag;
use tabane_config::settings::{Given, Settings, TableSettings, Typed, Values};

/// Flags of `up`. A flag replaces the file's value; links and addresses are added to the file's.
#[derive(Args, Debug)]
pub(crate) struct UpFlags {
    /// Name of a bundle whose configuration is /etc/tabane/NAME.toml, or a configuration file: a path with `/` or `.toml`
    #[arg(value_name = "NAME|FILE")]
    pub(crate) config: Option<String>,
    /// One link; can be repeated. Without peers it finds them by IPv6 multicast, or, with a
    /// local address that routers forward to, listens for them. Without any IP, as Ethernet frames:
    /// `ether:NIC[,engine=auto|xdp|packet][,completion=WAY]`. In place of a NIC:
    /// `mem:PATH[,unit=SIZE][,ring=SIZE][,slots=N][,slot=N][,poll=TIME]`, memory that is shared with the other nodes
    #[arg(long = "link", value_name = "NIC[,local=ADDR][,port=N][,peer=HOST:PORT]...[,rate=RATE|,down=RATE,up=RATE][,weight=N][,protected]", value_parser = parse_link_flag)]
    links: Vec<TableSettings>,
    #[command(flatten)]
    keys: KeyFlags,
}

impl UpFlags {
    pub(crate) fn settings(self) -> Settings {
        Settings { values: self.keys.0, links: self.links, ..Settings::default() }
    }
}

/// The flags of the table of keys.
#[derive(Debug)]
struct KeyFlags(Values);

impl Args for KeyFlags {
    fn augment_args(command: Command) -> Command {
        command.args(rows().filter_map(|row| Some(argument(row, row.flag.as_ref()?))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KeyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut values = Values::default();
        for row in rows() {
            if let Some(typed) = row.flag.as_ref().and_then(|flag| typed(row, flag, matches)) {
                values.insert(row.name, typed);
            }
        }
        Ok(Self(values))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn argument(row: &Row, flag: &Flag) -> Arg {
    let mut help = flag.help.replace("{words}", &row.rule.says.words().join(", "));
    let argument = Arg::new(row.name).long(flag.long);
    let Takes::Value(value) = flag.takes else { return argument.action(ArgAction::SetTrue).help(help) };
    if let Some(default) = row.default() {
        help = format!("{help} [default: {default}]");
    }
    let argument = argument.value_name(value).help(help);
    match row.rule.form {
        Form::Number => argument.value_parser(whole_number).allow_negative_numbers(true),
        Form::TextOrNumber(_) => argument.allow_negative_numbers(true),
        Form::Path(_) => argument.value_parser(value_parser!(PathBuf)),
        Form::List(_) | Form::Words(_) => argument.action(ArgAction::Append),
        _ => argument,
    }
}

/// What was typed of a flag.
fn typed(row: &Row, flag: &Flag, matches: &ArgMatches) -> Option<Typed> {
    let place = format!("--{}", flag.long);
    match flag.takes {
        Takes::Value(_) => {}
        _ if !matches.get_flag(row.name) => return None,
        Takes::Off => return Some(Typed::Switch(Given::by_flag(false, &place))),
        Takes::Word(word) => return Some(Typed::Text(Given::by_flag(word.to_owned(), &place))),
    }
    let texts = || matches.get_many::<String>(row.name).into_iter().flatten().cloned();
    match row.rule.form {
        Form::Number => Some(Typed::Number(Given::by_flag(*matches.get_one(row.name)?, &place))),
        Form::Path(_) => {
            let path: &PathBuf = matches.get_one(row.name)?;
            Some(Typed::Path(Given::by_flag(path.clone(), &place)))
        }
        Form::List(_) => list(texts().map(|text| Given::by_flag(text, &place)).collect()),
        Form::Words(_) => {
            let words: Vec<String> = texts().collect();
            (!words.is_empty()).then(|| Typed::Words(Given::by_flag(words, &place)))
        }
        _ => texts().next().map(|text| Typed::Text(Given::by_flag(text, &place))),
    }
}

fn whole_number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "allowed: a whole number".to_owned())
}
