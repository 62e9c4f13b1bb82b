//! Scopes of one evaluation: what a name means where.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::core::expr::{EvalError, Lookup, Runtime, Scope};
use crate::core::generate::error::Cause;
use crate::core::generate::facts::{Answer, Facts};
use crate::core::generate::fetch::Fetch;
use crate::core::generate::gate::{Gate, Refusal};
use crate::core::generate::trigger::Trigger;
use crate::core::scalar::image::{self, ImageDefaults};
use crate::core::scalar::json_text::json_bytes;

use super::{Entry, EntrySource, load};

/// The reference itself is a value of the trigger.
const BAD_IMAGE: &str = "a container has a bad image: invalid reference format";

/// What all scopes of one evaluation share.
pub(in crate::core::generate) struct Session<'s> {
    pub(in crate::core::generate) gate: Gate<'s>,
    pub(in crate::core::generate) facts: &'s Facts,
    /// For a ConfigMap without a namespace.
    pub(in crate::core::generate) home: &'s str,
    needs: RefCell<BTreeSet<Fetch>>,
    context_bytes: Cell<usize>,
    depth: Cell<usize>,
}

/// The names that every rule has.
pub(in crate::core::generate) struct Base<'t> {
    request: &'t Value,
    account: &'t Value,
    account_namespace: &'t Value,
    images: OnceCell<Result<Option<Value>, EvalError>>,
}

/// One scope: a list of entries on some ground.
pub(in crate::core::generate) struct Frame<'f> {
    session: &'f Session<'f>,
    ground: Ground<'f>,
    entries: &'f [Entry],
    loaded: Vec<OnceCell<Result<Value, EvalError>>>,
}

enum Ground<'f> {
    Request(&'f Base<'f>),
    Element { outer: &'f Frame<'f>, element: Value, index: Value, given: Option<&'f Map<String, Value>> },
}

/// A frame as entry number `visible` sees it.
pub(super) struct View<'f> {
    frame: &'f Frame<'f>,
    visible: usize,
}

impl<'s> Session<'s> {
    pub(in crate::core::generate) fn new(gate: Gate<'s>, facts: &'s Facts, home: &'s str) -> Self {
        Self { gate, facts, home, needs: RefCell::default(), context_bytes: Cell::new(0), depth: Cell::new(0) }
    }

    /// The answer to a request; notes what is missing.
    pub(in crate::core::generate) fn ask(&self, fetch: Fetch) -> Option<&'s Answer> {
        let answer = self.facts.answer(&fetch);
        if answer.is_none() {
            self.needs.borrow_mut().insert(fetch);
        }
        answer
    }

    /// Whether something is not wrong but waits for a fact; the fact is noted. A host that may not be looked up is an error.
    pub(in crate::core::generate) fn waits_for(&self, cause: &Cause) -> Result<bool, Refusal> {
        let Some(lookup) = cause.waits() else { return Ok(false) };
        if let Some(Lookup::Host(name)) = lookup {
            let fetch = self.gate.host(name)?;
            self.needs.borrow_mut().insert(fetch);
        }
        Ok(true)
    }

    /// Whether there is room for a value.
    pub(super) fn check_size(&self, value: &Value) -> Result<(), String> {
        self.check_bytes(self.bytes_with(value))
    }

    fn check_bytes(&self, bytes: usize) -> Result<(), String> {
        let limit = self.facts.limits.context_bytes;
        if limit > 0 && bytes > limit {
            return Err(format!("context size limit exceeded: {bytes} bytes exceeds limit of {limit} bytes"));
        }
        Ok(())
    }

    fn bytes_with(&self, value: &Value) -> usize {
        self.context_bytes.get().saturating_add(json_bytes(value))
    }

    /// Everything that was missing so far.
    pub(in crate::core::generate) fn take_needs(&self) -> BTreeSet<Fetch> {
        self.needs.take()
    }
}

impl<'t> Base<'t> {
    pub(in crate::core::generate) fn new(trigger: &'t Trigger, request: &'t Value) -> Self {
        let (account, account_namespace) = trigger.service_account();
        Self { request, account, account_namespace, images: OnceCell::new() }
    }

    fn images(&self) -> Result<Option<&Value>, EvalError> {
        let images = self.images.get_or_init(|| {
            let object = self.request.get("object").unwrap_or(&Value::Null);
            image::images(object, &ImageDefaults::default())
                .map_err(|_| EvalError::Variable { name: "images".into(), reason: BAD_IMAGE.to_owned() })
        });
        images.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }
}

impl<'f> Frame<'f> {
    /// The scope of a rule.
    pub(in crate::core::generate) fn of_rule(
        session: &'f Session<'f>,
        base: &'f Base<'f>,
        entries: &'f [Entry],
    ) -> Self {
        Self::new(session, Ground::Request(base), entries)
    }

    /// The scope of one element of `foreach`, inside that of its rule.
    pub(in crate::core::generate) fn of_element(
        outer: &'f Frame<'f>,
        element: Value,
        index: usize,
        entries: &'f [Entry],
    ) -> Self {
        let given = outer.session.facts.given_each.get(index);
        Self::new(outer.session, Ground::Element { outer, element, index: Value::from(index), given }, entries)
    }

    fn new(session: &'f Session<'f>, ground: Ground<'f>, entries: &'f [Entry]) -> Self {
        Self { session, ground, entries, loaded: (0..entries.len()).map(|_| OnceCell::new()).collect() }
    }

    /// The value of a name for a reader who sees the first `visible` entries.
    fn find(&self, name: &str, visible: usize, runtime: &Runtime) -> Result<Option<&Value>, EvalError> {
        let is_meant = |entry: &Entry| entry.name == name && !self.skips(entry);
        if let Some(position) = self.entries[..visible].iter().rposition(is_meant) {
            return self.load(position, runtime).map(Some);
        }
        match &self.ground {
            Ground::Element { outer, element, index, given } => match name {
                "element" | "element0" => Ok(Some(element)),
                "elementIndex" | "elementIndex0" => Ok(Some(index)),
                _ => match given.and_then(|given| given.get(name)) {
                    Some(given) => Ok(Some(given)),
                    None => outer.find(name, outer.entries.len(), runtime),
                },
            },
            Ground::Request(base) => match name {
                "request" => Ok(Some(base.request)),
                "serviceAccountName" => Ok(Some(base.account)),
                "serviceAccountNamespace" => Ok(Some(base.account_namespace)),
                "images" => base.images(),
                _ => Ok(self.session.facts.given.get(name)),
            },
        }
    }

    /// Computes an entry, once. An entry sees only earlier ones, so it never asks for itself.
    fn load(&self, position: usize, runtime: &Runtime) -> Result<&Value, EvalError> {
        let cell = &self.loaded[position];
        if cell.get().is_none() {
            let computed = self.compute(&self.entries[position], position, runtime);
            let _ = cell.set(computed);
        }
        let loaded = cell.get().expect("set just above");
        loaded.as_ref().map_err(Clone::clone)
    }

    fn compute(&self, entry: &Entry, position: usize, runtime: &Runtime) -> Result<Value, EvalError> {
        let failed = |reason: String| EvalError::Variable { name: entry.name.clone(), reason };
        let limits = self.session.facts.limits;
        let depth = self.session.depth.get();
        if depth >= limits.context_depth {
            return Err(failed(format!("context entries use one another more than {} deep", limits.context_depth)));
        }
        self.session.depth.set(depth + 1);
        let value = match self.given(&entry.name) {
            Some(given) if !matches!(entry.source, EntrySource::Variable(_)) => Ok(given.clone()),
            _ => load::load(entry, &View { frame: self, visible: position }, self.session, runtime),
        };
        self.session.depth.set(depth);
        let value = value?;

        self.session.context_bytes.set(self.session.bytes_with(&value));
        self.session.check_bytes(self.session.context_bytes.get()).map_err(failed)?;
        Ok(value)
    }

    /// Whether an entry is as good as not there, because there is nobody to ask for its value.
    fn skips(&self, entry: &Entry) -> bool {
        self.session.facts.offline && entry.source.is_elsewhere() && self.given(&entry.name).is_none()
    }

    /// What a values file has in place of an entry.
    fn given(&self, name: &str) -> Option<&Value> {
        let of_element = match &self.ground {
            Ground::Element { given, .. } => given.and_then(|given| given.get(name)),
            Ground::Request(_) => None,
        };
        of_element.or_else(|| self.session.facts.given.get(name))
    }

    fn collect_names<'n>(&'n self, visible: usize, names: &mut BTreeSet<&'n str>) {
        let visible = self.entries[..visible].iter().filter(|entry| !self.skips(entry));
        names.extend(visible.map(|entry| entry.name.as_str()));
        match &self.ground {
            Ground::Element { outer, given, .. } => {
                names.extend(["element", "element0", "elementIndex", "elementIndex0"]);
                names.extend(given.iter().flat_map(|given| given.keys()).map(String::as_str));
                outer.collect_names(outer.entries.len(), names);
            }
            Ground::Request(base) => {
                names.extend(["request", "serviceAccountName", "serviceAccountNamespace"]);
                if matches!(base.images(), Ok(Some(_))) {
                    names.insert("images");
                }
                names.extend(self.session.facts.given.keys().map(String::as_str));
            }
        }
    }
}

/// After the context: everything is visible.
impl Scope for Frame<'_> {
    fn lookup<'s>(&'s self, name: &str, runtime: &Runtime) -> Result<Option<&'s Value>, EvalError> {
        self.find(name, self.entries.len(), runtime)
    }

    fn names(&self) -> Vec<&str> {
        let mut names = BTreeSet::new();
        self.collect_names(self.entries.len(), &mut names);
        names.into_iter().collect()
    }
}

impl Scope for View<'_> {
    fn lookup<'s>(&'s self, name: &str, runtime: &Runtime) -> Result<Option<&'s Value>, EvalError> {
        self.frame.find(name, self.visible, runtime)
    }

    fn names(&self) -> Vec<&str> {
        let mut names = BTreeSet::new();
        self.frame.collect_names(self.visible, &mut names);
        names.into_iter().collect()
    }
}
