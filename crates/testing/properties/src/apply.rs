//! Server-side apply: a sequence of applied configurations, and updates between them.

use binnacle_meta::Text;
use binnacle_patch::apply::{self as fields, Apply, Update, Versions};
use binnacle_patch::merge;
use binnacle_schema::{Limits, json};
use binnacle_schema::{Message, Value, decode, defaults, yaml};

use crate::objects;

static STATUS: [Text; 1] = [Text::new_static("status")];

/// The maximum number of steps, since more of them find nothing new.
const MAX_STEPS: usize = 8;

/// The input is YAML configurations separated by `---`, which different managers apply in turn. One that begins with
/// `#update` is merged into the object instead; one that begins with `#force` overrides conflicts.
pub fn apply(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut world: Option<World> = None;
    for (step, part) in text.split("\n---\n").take(MAX_STEPS).enumerate() {
        let Ok((config, _)) = yaml::parse(part.as_bytes(), &Limits::default()) else { continue };
        if !matches!(config, Value::Object(_)) {
            continue;
        }
        let world = world.get_or_insert_with(|| World {
            message: objects::message_of(&config),
            api_version: config.str_at(&["apiVersion"]).to_owned(),
            live: None,
        });
        // The endpoint serves one kind and refuses others.
        let named = !world.api_version.is_empty() && !config.str_at(&["kind"]).is_empty();
        if !named || !objects::is_resource(world.message) {
            return;
        }
        let manager = ["first", "second", "third"][step % 3];
        let now = 1_700_000_000 + step as i64;
        if part.starts_with("#update") {
            world.update(manager, now, &config);
        } else {
            world.apply(manager, now, part.starts_with("#force"), &config);
        }
    }
}

struct World {
    message: &'static Message,
    api_version: String,
    live: Option<Value>,
}

impl Versions for World {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        (api_version == self.api_version).then(|| (object.clone(), self.message))
    }
}

impl World {
    fn request<'a>(&'a self, manager: &'a str, now: i64, force: bool) -> Apply<'a> {
        let (message, api_version) = (self.message, self.api_version.as_str());
        let update = Update { message, api_version, manager, subresource: "", now, reset: &STATUS };
        Apply { update, force, versions: self }
    }

    /// Applies one configuration; returns the resulting object, or `None` if it is refused.
    fn applied(&self, manager: &str, now: i64, force: bool, config: &Value) -> Option<Value> {
        // The endpoint refuses these earlier.
        if config.str_at(&["apiVersion"]) != self.api_version {
            return None;
        }
        let applied = fields::apply(&self.request(manager, now, force), self.live.as_ref(), config);
        let applied = applied.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()?;
        let mut object = decode::value(applied.object, self.message).ok()?.value;
        defaults::apply_constants(&mut object, self.message);
        if let Some(live) = &self.live {
            fields::keep_unchanged_times(live, &mut object);
        }
        Some(object)
    }

    fn apply(&mut self, manager: &str, now: i64, force: bool, config: &Value) {
        let Some(object) = self.applied(manager, now, force, config) else { return };
        objects::survives(&object, self.message);
        self.live = Some(object);
        if !self.keeps(config) {
            return;
        }
        let again = self.applied(manager, now + 1000, force, config).map(|object| json::to_string(&object));
        assert_eq!(again, self.live.as_ref().map(json::to_string), "the same again");
    }

    /// Returns true if decoding keeps all values of the configuration unchanged.
    ///
    /// Dropped or rewritten values (nulls, empty maps, quantities in other units) differ from the object each time that
    /// they are applied: a conflict with another owner, or an additional element of a list if they are part of its key.
    /// kube-apiserver does the same.
    fn keeps(&self, config: &Value) -> bool {
        decode::value(config.clone(), self.message).is_ok_and(|kept| holds(&kept.value, config))
    }

    fn update(&mut self, manager: &str, now: i64, change: &Value) {
        let Some(live) = &self.live else { return };
        let merged = merge::apply(live.clone(), change);
        let Ok(decoded) = decode::value(merged, self.message) else { return };
        let mut object = decoded.value;
        defaults::apply_constants(&mut object, self.message);
        let request = self.request(manager, now, false);
        fields::track_update(&request.update, Some(live), &mut object);
        objects::survives(&object, self.message);
        self.live = Some(object);
    }
}

/// Returns true if `whole` contains all of `part`.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| holds(whole, part)))
        }
        (Value::List(whole), Value::List(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| holds(whole, part))
        }
        _ => whole == part,
    }
}
