//! Answers from files first, then from the current cluster. Each question is put to the cluster once.

use std::collections::BTreeMap;

use anyhow::Context;
use tokio::runtime::Runtime;

use super::world::World;
use crate::cluster::{self, Fetcher};
use crate::core::generate::{Answer, Fetch};

pub(super) struct Live {
    runtime: Runtime,
    fetcher: Fetcher,
    answers: BTreeMap<Fetch, Answer>,
}

impl Live {
    pub(super) fn connect() -> anyhow::Result<Self> {
        let runtime = Runtime::new().context("starting the runtime")?;
        let client = runtime.block_on(cluster::connect(None, None))?;
        let fetcher = {
            let _inside = runtime.enter();
            Fetcher::new(client)
        };
        Ok(Self {
            runtime,
            fetcher,
            answers: BTreeMap::new(),
        })
    }

    pub(super) fn answer(&mut self, fetch: &Fetch, world: &World) -> Answer {
        // A single object that was given stands for the one in the cluster; lists are the cluster's.
        if let (Fetch::Object(_), found @ Answer::Found(_)) = (fetch, world.answer(fetch)) {
            return found;
        }
        if let Some(known) = self.answers.get(fetch) {
            return known.clone();
        }
        let answer = self.runtime.block_on(self.fetcher.answer(fetch));
        self.answers.insert(fetch.clone(), answer.clone());
        answer
    }
}
