//! Answers from files first, then from the current cluster. Each question is put to the cluster once.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::Runtime;

use super::world::World;
use crate::cluster::discovery::Discovery;
use crate::cluster::{self, Api, Reader};
use crate::core::generate::{Answer, Fetch};

pub(super) struct Live {
    runtime: Runtime,
    reader: Reader,
    answers: BTreeMap<Fetch, Answer>,
}

impl Live {
    pub(super) fn connect() -> anyhow::Result<Self> {
        let runtime = Runtime::new().context("starting the runtime")?;
        let client = runtime.block_on(cluster::connect(None, None))?;
        let api = Api::new(client);
        let reader = Reader::new(api.clone(), Arc::new(Discovery::new(api)));
        Ok(Self { runtime, reader, answers: BTreeMap::new() })
    }

    pub(super) fn answer(&mut self, fetch: &Fetch, world: &World) -> Answer {
        // A single object that was given stands for the one in the cluster; lists are the cluster's.
        if let (Fetch::Object(_), found @ Answer::Found(_)) = (fetch, world.answer(fetch)) {
            return found;
        }
        if let Some(known) = self.answers.get(fetch) {
            return known.clone();
        }
        let answer = self.runtime.block_on(self.reader.answer(fetch));
        let answer = answer.unwrap_or_else(|error| Answer::Failed(error.to_string()));
        self.answers.insert(fetch.clone(), answer.clone());
        answer
    }
}
