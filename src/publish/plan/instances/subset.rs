//! Which instances come first if not all of them fit. Those that are present do, so that nothing is
//! exchanged without need; among the others the hashes in their ids decide, so that the same ones are
//! chosen from run to run, whatever the order of lists.

use super::identity::hash_of;

/// The ids in the order in which they are given room.
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
