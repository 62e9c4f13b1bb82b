//! The short form of a filter: `typedConfig: URL`, with the configuration beside it.

use serde_json::{Map, Value};

use super::{Copying, DecodeError, Decoded, Decoder, Remark, Strictness, TYPE_KEY, malformed};
use crate::core::envoy::constraints;
use crate::core::envoy::path::Place;
use crate::core::envoy::schema::Message;
use crate::core::json::{Document, Tree};

pub(super) struct ShortForm<'v> {
    url: &'v str,
    /// The filter's own part.
    filter: Value,
    /// The rest, with the URL.
    config: Value,
}

impl<'v> ShortForm<'v> {
    /// `None` if the filter is not in this form.
    pub(super) fn read(message: &Message, document: impl Tree<'v>) -> Option<Self> {
        let url = document.get("typedConfig").or_else(|| document.get("typed_config"))?.as_text()?;
        let mut filter = Map::new();
        let mut config = Map::new();
        for (key, value) in document.fields() {
            match message.field(key).map(|field| field.json) {
                Some("typedConfig") => {}
                Some(_) => drop(filter.insert(key.to_owned(), value.to_value())),
                None => drop(config.insert(key.to_owned(), value.to_value())),
            }
        }
        // Text with nothing beside it is a slip, not a short form: the config is missing.
        if config.is_empty() && !url.is_empty() {
            return None;
        }
        config.insert(TYPE_KEY.to_owned(), url.into());
        Some(Self { url, filter: filter.into(), config: config.into() })
    }

    pub(super) fn decode(
        &self,
        message: &'static Message,
        strictness: Strictness,
    ) -> Result<Decoded<'static>, DecodeError> {
        let root = Place::Root;
        let here = Place::Field(&root, "typedConfig");
        if self.url.is_empty() {
            return Err(malformed(&here, "is empty; write the type URL of the configuration".to_owned()));
        }
        if self.url.ends_with('/') {
            return Err(malformed(&here, format!("{:?} is not a type URL", self.url)));
        }
        let mut decoder = Decoder::new();
        decoder.message(message, &self.filter, &root)?;
        let Decoder { notes, out, .. } = decoder;
        let mut folded = out.finish().to_value();

        let mut decoder = Decoder { notes, ..Decoder::new() };
        if decoder.schema.message_of_url(self.url).is_some() {
            decoder.any(&self.config, &root)?;
        } else {
            decoder.note(&Place::Field(&root, TYPE_KEY), Remark::OpaqueConfig { url: self.url.to_owned() });
            decoder.untyped(&self.config, &root, Copying::Exactly)?;
        }
        if let Some(filter) = folded.as_object_mut() {
            if filter.contains_key("configDiscovery") {
                decoder.note(&here, Remark::Superseded { by: "configDiscovery" });
            } else {
                let config = std::mem::take(&mut decoder.out).finish();
                filter.insert("typedConfig".to_owned(), config.to_value());
            }
        }
        let document = Document::from(&folded).into_owned();
        if strictness == Strictness::Whole {
            constraints::check(message, document.root())?;
        }
        Ok(Decoded { document, notes: decoder.notes })
    }
}
