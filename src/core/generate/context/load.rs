//! How each kind of entry gets its value.

use serde_json::{Value, json};

use crate::core::expr::{EvalError, Expression, Lookup, Runtime, Template, TemplateError};
use crate::core::generate::facts::Answer;
use crate::core::generate::fetch::Fetch;
use crate::core::resource::Gvk;
use crate::core::scalar::image::{Image, ImageDefaults};

use super::call::{Call, decode, text_of};
use super::frame::{Session, View};
use super::{ApiCall, Entry, EntrySource, Query, Variable};

/// Why an entry has no value: something that ends the evaluation, or a reason that a default may cover.
enum Trouble {
    Final(EvalError),
    Reason(String),
}

type Loaded<T = Value> = Result<T, Trouble>;

pub(super) fn load(
    entry: &Entry,
    scope: &View<'_>,
    session: &Session<'_>,
    runtime: &Runtime,
) -> Result<Value, EvalError> {
    let loader = Loader { name: &entry.name, scope, session, runtime };
    let loaded = match &entry.source {
        EntrySource::Variable(variable) => loader.variable(variable),
        EntrySource::ConfigMap(template) => loader.config_map(template),
        EntrySource::ApiCall(call) => loader.api_call(call),
        EntrySource::ImageRegistry { reference, query } => loader.image(reference, query.as_ref()),
        EntrySource::GlobalReference { name, query } => loader.global(name, query.as_ref()),
    };
    loaded.map_err(|trouble| match trouble {
        Trouble::Final(error) => error,
        Trouble::Reason(reason) => EvalError::Variable { name: entry.name.clone(), reason },
    })
}

struct Loader<'l> {
    name: &'l str,
    scope: &'l View<'l>,
    session: &'l Session<'l>,
    runtime: &'l Runtime,
}

impl Loader<'_> {
    fn variable(&self, variable: &Variable) -> Loaded {
        let Variable { value, query, default } = variable;
        // The default is substituted whether it is needed or not, so a broken one shows at once.
        let default = default.as_ref().map(|default| self.render(default)).transpose()?;
        let value = value.as_ref().map(|value| self.render(value)).transpose()?;
        let result = match (value, query) {
            (Some(value), None) => value,
            (Some(value), Some(query)) => match self.search(query, &value) {
                Err(Trouble::Reason(_)) if default.is_some() => default.unwrap_or_default(),
                result => result?,
            },
            (None, Some(query)) => match (self.resolve(query), default) {
                (Err(Trouble::Reason(_)) | Ok(Value::Null), Some(default)) => default,
                (result, _) => result?,
            },
            (None, None) => default.unwrap_or_default(),
        };
        match result {
            Value::Null => Err(Trouble::Reason("evaluated to nil".to_owned())),
            result => Ok(result),
        }
    }

    fn config_map(&self, template: &Template) -> Loaded {
        let rendered = self.render(template)?;
        let name = text_of(&rendered, "name").map_err(Trouble::Reason)?;
        let namespace = text_of(&rendered, "namespace").map_err(Trouble::Reason)?;
        let namespace = if namespace.is_empty() { self.session.home } else { namespace };
        let fetch = self.session.gate.object(Gvk::new("v1", "ConfigMap"), namespace, name).map_err(reason)?;
        let found = self.ask(fetch)?;
        Ok(json!({
            "data": found.get("data").cloned().unwrap_or_else(|| json!({})),
            "metadata": found.get("metadata").cloned().unwrap_or_else(|| json!({})),
        }))
    }

    fn api_call(&self, call: &ApiCall) -> Loaded {
        let rendered = self.render(&call.call)?;
        let fetch = Call::read(&rendered).map_err(Trouble::Reason)?.fetch(&self.session.gate, &call.path);
        match (fetch.map_err(reason).and_then(|fetch| self.ask(fetch)), &call.default) {
            (Err(Trouble::Reason(_)), Some(default)) => Ok(default.clone()),
            (Err(trouble), _) => Err(trouble),
            // One that is not JSON was a good call, which no default covers.
            (Ok(response), _) if call.is_service => {
                self.apply(call.query.as_ref(), &decode(response).map_err(Trouble::Reason)?)
            }
            (Ok(response), _) => self.apply(call.query.as_ref(), response),
        }
    }

    fn image(&self, reference: &Template, query: Option<&Query>) -> Loaded {
        let rendered = self.render(reference)?;
        let reference = rendered.as_str().ok_or_else(|| Trouble::Reason("`reference` must become text".to_owned()))?;
        let image = Image::parse(reference, &ImageDefaults::default())
            .map_err(|_| Trouble::Reason("`reference` must become an image reference".to_owned()))?;
        let fetch = self.session.gate.image(&image.registry, reference).map_err(self::reason)?;
        let found = self.ask(fetch)?;
        self.apply(query, found)
    }

    fn global(&self, name: &Template, query: Option<&Query>) -> Loaded {
        let rendered = self.render(name)?;
        let name = rendered.as_str().ok_or_else(|| Trouble::Reason("`name` must become text".to_owned()))?;
        let found = self.ask(self.session.gate.global(name))?;
        self.apply(query, found)
    }

    fn ask(&self, fetch: Fetch) -> Loaded<&Value> {
        let what = fetch.to_string();
        match self.session.ask(fetch) {
            Some(Answer::Found(found)) => Ok(found),
            Some(Answer::Absent) => Err(Trouble::Reason(format!("{what} not found"))),
            Some(Answer::Failed(reason)) => Err(Trouble::Reason(format!("{what}: {reason}"))),
            None => Err(Trouble::Final(EvalError::Needs(Lookup::Variable(self.name.to_owned())))),
        }
    }

    fn apply(&self, query: Option<&Query>, found: &Value) -> Loaded {
        match query {
            Some(query) => self.search(query, found),
            // Whoever keeps it may have it at hand: what is too large is not even copied.
            None => {
                self.session.check_size(found).map_err(Trouble::Reason)?;
                Ok(found.clone())
            }
        }
    }

    fn search(&self, query: &Query, document: &Value) -> Loaded {
        self.with(query, |expression| expression.search_json(document, self.runtime))
    }

    fn resolve(&self, query: &Query) -> Loaded {
        self.with(query, |expression| expression.resolve_json(self.scope, self.runtime))
    }

    fn with(&self, query: &Query, run: impl Fn(&Expression) -> Result<Value, EvalError>) -> Loaded {
        match query {
            Query::Fixed(expression) => run(expression).map_err(trouble),
            Query::Computed(template) => {
                let rendered = self.render(template)?;
                let text =
                    rendered.as_str().ok_or_else(|| Trouble::Reason("`jmesPath` must become text".to_owned()))?;
                let expression = Expression::compile_computed(text).map_err(reason)?;
                run(&expression).map_err(trouble)
            }
        }
    }

    fn render(&self, template: &Template) -> Loaded {
        template.substitute(self.scope, self.runtime).map_err(|error| match error {
            TemplateError::Expression { reason: reason @ (EvalError::Needs(_) | EvalError::Budget { .. }), .. }
            | TemplateError::Budget { reason, .. } => Trouble::Final(reason),
            other => Trouble::Reason(other.to_string()),
        })
    }
}

fn trouble(error: EvalError) -> Trouble {
    match error {
        EvalError::Needs(_) | EvalError::Budget { .. } => Trouble::Final(error),
        other => Trouble::Reason(other.to_string()),
    }
}

fn reason(error: impl std::fmt::Display) -> Trouble {
    Trouble::Reason(error.to_string())
}
