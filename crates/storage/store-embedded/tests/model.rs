//! Random work on the engine and on a model of the contract: the results, states and events must be the same.

mod support;

use std::sync::Arc;

use binnacle_store::Store;
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, WatchOptions};
use support::model::Model;
use support::sim_files::SimFiles;
use support::work::Rng;

const SEEDS: u64 = 12;
const STEPS: usize = 250;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_store_matches_model() {
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let mut model = Model::default();
        let disk = SimFiles::default();
        let mut store = open(&disk, &mut rng);
        for step in 0..STEPS {
            let work = rng.work(&model);
            work.run(&store, &mut model).await.expect("nothing fails here");
            if rng.below(40) == 0 {
                store.close().await;
                store = open(&disk, &mut rng);
                model.check(&store, &format!("seed {seed}, step {step}, restarted")).await;
            }
        }
        model.check(&store, &format!("seed {seed}")).await;
    }
}

fn open(disk: &SimFiles, rng: &mut Rng) -> EmbeddedStore {
    let watch = WatchOptions { buffer_events: 1 + rng.below(100) as usize, ..WatchOptions::default() };
    let log = LogOptions { min_segment: 8 << 10, max_segment: 16 << 10, background: rng.below(2) == 0 };
    EmbeddedStore::open_in(Arc::new(disk.clone()), &EmbeddedOptions { watch, log, ..EmbeddedOptions::new("") })
        .expect("the store opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_store_matches_model() {
    for seed in 100..104 {
        let dir = tempfile::tempdir().expect("a directory");
        let mut rng = Rng::new(seed);
        let mut model = Model::default();
        for round in 0..4 {
            // Alternates between the options of servers and of tools.
            let log = LogOptions { min_segment: 64 << 10, max_segment: 64 << 10, background: true };
            let options = EmbeddedOptions { lean: round % 2 == 1, log, ..EmbeddedOptions::new(dir.path()) };
            let store = EmbeddedStore::open(options).expect("the store opens");
            model.check(&store, &format!("seed {seed}, round {round}")).await;
            for _ in 0..STEPS {
                let work = rng.work(&model);
                work.run(&store, &mut model).await.expect("nothing fails here");
            }
            store.close().await;
            let closed = store.current_revision().await;
            assert!(matches!(closed, Err(binnacle_store::StoreError::Closed)), "{closed:?}");
        }
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path())).expect("the store opens");
        model.check(&store, &format!("seed {seed}, at the end")).await;
    }
}
