//! The priority of instances if there is no capacity for all. Present instances come first, so that none is replaced
//! without need. The others are sorted by the hashes in their ids, so that every run chooses the same ones: the order
//! of the lists has no effect.

use super::identity::hash_of;

/// The ids by priority, highest first.
pub fn in_order<'a>(
    ids: impl IntoIterator<Item = &'a String>,
    present: impl Fn(&String) -> bool,
) -> Vec<&'a String> {
    let mut ids: Vec<&String> = ids.into_iter().collect();
    ids.sort_by_key(|&id| (!present(id), hash_of(id), id));
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_ones_come_first_then_the_hashes_decide() {
        let ids = ["ip-10-0-0-1-cc", "ip-10-0-0-2-aa", "ip-10-0-0-3-bb", "ip-10-0-0-4-aa"];
        let ids = ids.map(str::to_owned);
        let order = |present: &[usize]| {
            let present = |id: &String| present.iter().any(|index| ids[*index] == *id);
            let order = in_order(&ids, present).into_iter();
            order.map(|id| ids.iter().position(|it| it == id)).collect::<Option<Vec<_>>>()
        };
        assert_eq!(order(&[]), Some(vec![1, 3, 2, 0]));
        assert_eq!(order(&[0, 2]), Some(vec![2, 0, 1, 3]));
    }
}
