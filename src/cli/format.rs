//! `-o text|json|yaml`: tables and sentences for people, data for programs.

use std::io::Write;

use serde_json::Value;

/// How a command prints its result.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Format {
    /// How to print the result
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Kind::Text, value_name = "FORMAT")]
    output: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// For people
    Text,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

impl Format {
    pub(super) fn is_text(self) -> bool {
        self.output == Kind::Text
    }

    /// Prints `data` as JSON or YAML, or calls `text`.
    pub(super) fn print(
        self,
        out: &mut dyn Write,
        data: impl FnOnce() -> Value,
        text: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> anyhow::Result<()> {
        match self.output {
            Kind::Text => text(out)?,
            Kind::Json => {
                serde_json::to_writer_pretty(&mut *out, &data())?;
                writeln!(out)?;
            }
            Kind::Yaml => write!(out, "{}", serde_saphyr::to_string(&data())?)?,
        }
        Ok(())
    }

    /// Like [`Format::print`], but YAML is a stream of documents, ready for `kubectl apply`.
    pub(super) fn print_stream(
        self,
        out: &mut dyn Write,
        documents: impl FnOnce() -> Vec<Value>,
        data: impl FnOnce() -> Value,
        text: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> anyhow::Result<()> {
        if self.output != Kind::Yaml {
            return self.print(out, data, text);
        }
        for document in documents() {
            write!(out, "---\n{}", serde_saphyr::to_string(&document)?)?;
        }
        Ok(())
    }
}
