//! All devices below some, each once and before those that it lies on, so that a reader from the top
//! meets everything in the order of its column.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{StackLayer, Unseen};

use crate::walk::{device, reach, told};

/// Layers below each other that are followed: no stack of sense has so many.
const DEPTH: usize = 64;

/// Layers in all.
const LAYERS: usize = 4096;

/// All layers at and below the devices of these kernel names; the first of them is the first.
pub fn layers(on: &[String], unseen: &mut Vec<Unseen>) -> Vec<StackLayer> {
    sorted(on, &mut |name, unseen| device::layer(name, unseen), unseen)
}

/// In the order of a depth-first search backwards: whatever lies below something comes after it.
fn sorted(
    on: &[String],
    look: &mut dyn FnMut(&str, &mut Vec<Unseen>) -> StackLayer,
    unseen: &mut Vec<Unseen>,
) -> Vec<StackLayer> {
    let mut search = Search { look, found: BTreeMap::new(), order: Vec::new(), above: BTreeSet::new() };
    for name in on.iter().rev() {
        search.visit(name, unseen);
    }
    let Search { mut found, order, .. } = search;
    let mut layers: Vec<StackLayer> = order.iter().rev().filter_map(|name| found.remove(name)).collect();
    // With several devices on top, one may lie below another: then the order above stands. Else the
    // first that was asked for is the first anyway, as it was the last to be visited.
    if let Some(at) = layers.iter().position(|layer| Some(&layer.name) == on.first()) {
        layers[..=at].rotate_right(1);
    }
    layers
}

struct Search<'a> {
    look: &'a mut dyn FnMut(&str, &mut Vec<Unseen>) -> StackLayer,
    found: BTreeMap<String, StackLayer>,
    order: Vec<String>,
    /// Those whose lower layers are being visited.
    above: BTreeSet<String>,
}

impl Search<'_> {
    fn visit(&mut self, name: &str, unseen: &mut Vec<Unseen>) {
        if self.found.contains_key(name) {
            return;
        }
        let why = if self.above.len() >= DEPTH {
            Some(format!("{name} lies deeper than {DEPTH} layers"))
        } else if self.found.len() >= LAYERS {
            Some(format!("there are more than {LAYERS} layers; {name} is one more"))
        } else {
            None
        };
        if let Some(why) = why {
            let reason = Reason::new(why).advise("name a device further down");
            unseen.push(told("layer", Some(name), reason));
            return;
        }
        let layer = (self.look)(name, unseen);
        let mut lower = reach::below(&layer);
        self.found.insert(name.to_string(), layer);
        self.above.insert(name.to_string());
        lower.reverse();
        for next in lower {
            if self.above.contains(&next) {
                let reason = Reason::new(format!("{next} seems to lie below itself"))
                    .advise("the stack changed meanwhile: ask again");
                unseen.push(told("layer", Some(&next), reason));
            } else {
                self.visit(&next, unseen);
            }
        }
        self.above.remove(name);
        self.order.push(name.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::reach::tests::layer;

    fn names(on: &[&str], stack: &[(&str, &[&str])]) -> (Vec<String>, Vec<Unseen>) {
        let mut unseen = Vec::new();
        let on: Vec<String> = on.iter().map(ToString::to_string).collect();
        let mut look = |name: &str, _: &mut Vec<Unseen>| {
            let lower = stack.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, lower)| lower);
            layer(name, &lower.iter().map(|on| (0, 8, *on, 0, None)).collect::<Vec<_>>())
        };
        let found = sorted(&on, &mut look, &mut unseen);
        (found.into_iter().map(|layer| layer.name).collect(), unseen)
    }

    #[test]
    fn each_comes_once_and_before_what_it_lies_on() {
        let stack: &[(&str, &[&str])] = &[
            ("dm-0", &["md0"]),
            ("md0", &["sda1", "sdb1", "sda2"]),
            ("sda1", &["sda"]),
            ("sda2", &["sda"]),
            ("sdb1", &["sdb"]),
        ];
        let (found, unseen) = names(&["dm-0"], stack);
        assert_eq!(found, ["dm-0", "md0", "sda1", "sdb1", "sdb", "sda2", "sda"]);
        assert!(unseen.is_empty());
    }

    #[test]
    fn the_first_of_several_devices_is_the_first() {
        let (found, _) = names(&["sdb", "sda"], &[]);
        assert_eq!(found, ["sdb", "sda"]);
        let (found, _) = names(&["sda1", "sdb1"], &[("sda1", &["sda"]), ("sdb1", &["sdb"])]);
        assert_eq!(found, ["sda1", "sda", "sdb1", "sdb"]);
    }

    #[test]
    fn what_lies_below_itself_is_told_and_not_followed() {
        let (found, unseen) = names(&["a"], &[("a", &["b"]), ("b", &["a"])]);
        assert_eq!(found, ["a", "b"]);
        assert!(unseen[0].reason.message.contains("below itself"));
    }

    #[test]
    fn a_column_of_layers_without_end_is_cut_and_told() {
        let mut unseen = Vec::new();
        let mut next = |name: &str, _: &mut Vec<Unseen>| {
            let lower = format!("d{}", name[1..].parse::<u32>().unwrap() + 1);
            layer(name, &[(0, 8, &lower, 0, None)])
        };
        let found = sorted(&["d0".to_string()], &mut next, &mut unseen);
        assert_eq!(found.len(), DEPTH);
        assert_eq!(unseen.len(), 1);
    }
}
