//! The parts of an import that are ahead of Cloud Map. An invocation that reads an exporting cluster itself changes the
//! slices at once, and the operations in Cloud Map end seconds or minutes later. Another invocation that takes this cluster
//! from Cloud Map meanwhile (another function, or a message about another cluster) would take the change back. So a slice
//! has an annotation with the addresses of its last change by such a read and the time of it. While Cloud Map does not
//! agree about one of them, the part stays as it is, for a few minutes at most: the registration may have failed.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::basis::Sources;
use super::ownership::OwnerLabel;
use super::present::{PortSet, Present, Slice, SliceEndpoint};
use crate::model::clusterset::ClusterId;
use crate::model::{SignedDuration, Timestamp};

/// The annotation of a slice.
pub(super) const AHEAD: &str = "cloud-map-sync/ahead-of-cloud-map";
/// The time that the operations of a change may take.
const LONGEST: SignedDuration = SignedDuration::from_mins(5);

/// The clusters of which Cloud Map, as it was read, does not show yet what stands in the import.
pub fn ahead(
    owner: &OwnerLabel,
    present: &Present,
    sources: &Sources,
    now: Timestamp,
) -> BTreeSet<ClusterId> {
    let slices = present.slices.iter().filter(|slice| owner.owns(&slice.metadata));
    let ahead = slices.filter_map(|slice| {
        let cluster = slice.source().filter(|it| !sources.is_read_there(it))?;
        let changed = changed(slice, now);
        if changed.is_empty() {
            return None;
        }
        let shown = ready_in(sources, &cluster, &slice.ports);
        let standing = ready(&slice.endpoints);
        let is_ahead = changed.iter().any(|it| standing.contains(it) != shown.contains(it));
        is_ahead.then_some(cluster)
    });
    ahead.collect()
}

/// The annotation for a slice that is changed from these endpoints to those; `None` if it stays as it is.
pub(super) fn annotation(
    slice: Option<&Slice>,
    (ports, endpoints): (&PortSet, &[SliceEndpoint]),
    now: Timestamp,
) -> Option<String> {
    let after = ready(endpoints);
    let before = slice.filter(|it| it.ports == *ports).map(|it| ready(&it.endpoints));
    let mut all = &after ^ &before.unwrap_or_default();
    if all.is_empty() {
        return None;
    }
    all.extend(slice.map(|slice| changed(slice, now)).unwrap_or_default());
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    Some(format!("{now:.0} {}", all.join(" ")))
}

/// The addresses in the annotation of a slice, unless it is old.
fn changed(slice: &Slice, now: Timestamp) -> BTreeSet<IpAddr> {
    let text = slice.metadata.annotations.get(AHEAD).map(String::as_str).unwrap_or_default();
    let mut words = text.split(' ');
    let since = words.next().and_then(|word| word.parse::<Timestamp>().ok());
    let is_young = since.is_some_and(|since| now.duration_since(since).abs() < LONGEST);
    words.filter(|_| is_young).filter_map(|word| word.parse().ok()).collect()
}

fn ready(endpoints: &[SliceEndpoint]) -> BTreeSet<IpAddr> {
    let ready = endpoints.iter().filter(|endpoint| endpoint.ready != Some(false));
    ready.filter_map(SliceEndpoint::address).collect()
}

/// The addresses of a cluster that Cloud Map shows as ready, with all of these target ports.
fn ready_in(sources: &Sources, cluster: &ClusterId, ports: &PortSet) -> BTreeSet<IpAddr> {
    let exported = sources.exported(cluster);
    let shown = exported.endpoints.iter().filter(|endpoint| {
        let has = |number: u16| endpoint.ports.values().any(|it| *it == number);
        endpoint.ready && ports.iter().all(|port| has(port.number))
    });
    shown.map(|endpoint| endpoint.address).collect()
}
