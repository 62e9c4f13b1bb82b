//! `writ jp`: try an expression, look at its tree, read about the functions.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::Outcome;
use super::clock;
use super::format::Format;
use super::load;
use crate::core::expr::functions::{self, Function};
use crate::core::expr::{EvalError, Expression, Lookup, Runtime, parse_tree};
use crate::core::nearest::nearest;

/// Try JMESPath expressions as rules use them
#[derive(Debug, clap::Args)]
pub struct Jp {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Query(Query),
    Parse(Parse),
    Function(About),
}

/// Evaluate an expression and print the result as JSON
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  writ jp query 'metadata.labels.app' -i pod.yaml
  kubectl get pods -o json | writ jp query 'items[].metadata.name'
  writ jp query \"split('a,b', ',')\" -i /dev/null")]
struct Query {
    /// The expression, without braces
    expression: String,
    /// The document to query (YAML or JSON); `-` reads standard input
    #[arg(short = 'i', long = "input", value_name = "FILE", default_value = "-")]
    input: PathBuf,
    #[command(flatten)]
    format: Format,
}

/// Print the tree of an expression
#[derive(Debug, clap::Args)]
struct Parse {
    /// The expression, without braces
    expression: String,
}

/// List the functions, or describe one
#[derive(Debug, clap::Args)]
struct About {
    /// The function's name
    name: Option<String>,
    #[command(flatten)]
    format: Format,
}

impl Jp {
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        match self.command {
            Command::Query(query) => query.run(out),
            Command::Parse(parse) => parse.run(out),
            Command::Function(about) => about.run(out),
        }
    }
}

impl Query {
    fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { expression, input, format } = self;
        let document = match load::load(std::slice::from_ref(&input))?.into_iter().next() {
            Some(loaded) => loaded.document.with_context(|| format!("reading {}", input.display()))?.value,
            None => Value::Null,
        };
        let compiled = match Expression::compile(&expression) {
            Ok(compiled) => compiled,
            Err(error) => return complain(&error.snippet()),
        };
        match evaluate(&compiled, &document) {
            Ok(result) => {
                format.print(out, || result.clone(), |out| writeln!(out, "{result:#}"))?;
                Ok(Outcome::Clean)
            }
            Err(error) => complain(&format!("{expression}\n{error}")),
        }
    }
}

/// Evaluates, looking hosts up as the expression asks for them.
fn evaluate(expression: &Expression, document: &Value) -> Result<Value, EvalError> {
    const MOST_HOSTS: usize = 16;
    let mut runtime = Runtime::new(clock::now(), clock::seed());
    for _ in 0..MOST_HOSTS {
        match expression.search_json(document, &runtime) {
            Err(EvalError::Needs(Lookup::Host(host))) => {
                let addresses = clock::addresses(&host);
                runtime = runtime.with_host(host, addresses);
            }
            result => return result,
        }
    }
    expression.search_json(document, &runtime)
}

impl Parse {
    fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        match parse_tree(&self.expression) {
            Ok(tree) => {
                writeln!(out, "{}", tree.trim_end())?;
                Ok(Outcome::Clean)
            }
            Err(error) => complain(&error.snippet()),
        }
    }
}

impl About {
    fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let Self { name, format } = self;
        let Some(name) = name else {
            let all = functions::catalogue();
            let data = || all.iter().map(|function| to_json(function)).collect();
            format.print(out, data, |out| all.iter().try_for_each(|function| writeln!(out, "{function}")))?;
            return Ok(Outcome::Clean);
        };
        let Some(function) = functions::find(&name) else {
            let names = functions::catalogue();
            match nearest(&name, names.iter().map(|function| function.name)) {
                Some(near) => bail!("there is no function `{name}`; did you mean `{near}`?"),
                None => bail!("there is no function `{name}`; `writ jp function` lists them"),
            }
        };
        format.print(out, || to_json(function), |out| describe(function, out))?;
        Ok(Outcome::Clean)
    }
}

fn describe(function: &Function, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{function}\n\n{}", function.note)?;
    if !function.examples.is_empty() {
        writeln!(out, "\nExamples:")?;
    }
    for (expression, result) in function.examples {
        writeln!(out, "  {expression}\n    {result}")?;
    }
    Ok(())
}

fn to_json(function: &Function) -> Value {
    let examples =
        function.examples.iter().map(|(expression, result)| json!({"expression": expression, "result": result}));
    json!({
        "name": function.name, "signature": function.to_string(), "note": function.note,
        "examples": examples.collect::<Vec<_>>(),
    })
}

/// An expression that errs is a finding: the message goes to standard error.
fn complain(message: &str) -> anyhow::Result<Outcome> {
    writeln!(std::io::stderr(), "{message}")?;
    Ok(Outcome::Findings)
}
