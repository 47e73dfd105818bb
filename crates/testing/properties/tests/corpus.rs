//! Checks the properties on every file of the corpus: former findings, and seeds for generated input.

use std::path::Path;

use binnacle_properties::{ALL, charged};

#[test]
fn properties_hold_for_the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, property) in ALL {
        let folder = corpus.join(name);
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("the folder can be read").path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{}", folder.display());
        for file in files {
            let data = std::fs::read(&file).expect("the file can be read");
            // A violated property panics; this line names the file.
            println!("{}", file.display());
            charged(*property, &data);
        }
    }
}
