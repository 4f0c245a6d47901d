//! The endpoints of exported Services. They are named in the selector of one list for all namespaces, since a cluster has
//! more namespaces with exports than its exports fill pages.

use std::collections::{BTreeMap, BTreeSet};

use super::endpoint_slices::{Endpoints, SERVICE_NAME, SliceList};
use super::{Error, Kubernetes};
use crate::model::ServiceRef;

/// The longest list of names in a selector, in bytes of the request line, which proxies limit to 8 KB.
const LONGEST: usize = 4000;
/// A comma in a request line.
const COMMA: usize = "%2C".len();
/// With more lists than this, all slices but those of imports are listed.
const MOST: usize = 8;
/// The label of slices that names their writer.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

impl Kubernetes {
    /// The endpoints of exported Services. A Service without endpoints has an empty entry.
    ///
    /// # Errors
    /// Returns an error if one of the lists could not be read completely.
    pub async fn exported_endpoints(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        self.endpoints_by(services, lists(services)).await
    }
}

fn lists(services: &BTreeSet<ServiceRef>) -> Vec<SliceList> {
    let namespaces: BTreeSet<&String> = services.iter().map(|it| &it.namespace).collect();
    let namespace = match Vec::from_iter(namespaces).as_slice() {
        [only] => Some((*only).clone()),
        _ => None,
    };
    let mut selectors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut length = 0;
    for name in services.iter().map(|it| it.name.as_str()).collect::<BTreeSet<_>>() {
        if length + name.len() > LONGEST {
            selectors.push(selector(&std::mem::take(&mut names)));
            length = 0;
        }
        length += name.len() + COMMA;
        names.push(name);
    }
    if !names.is_empty() {
        selectors.push(selector(&names));
    }
    if selectors.len() > MOST {
        selectors = vec![format!("{SERVICE_NAME},{MANAGED_BY}!=cloud-map-sync")];
    }
    let list = |selector| SliceList { namespace: namespace.clone(), selector };
    selectors.into_iter().map(list).collect()
}

fn selector(names: &[&str]) -> String {
    match names {
        [name] => format!("{SERVICE_NAME}={name}"),
        names => format!("{SERVICE_NAME} in ({})", names.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(count: usize, namespaces: usize, length: usize) -> BTreeSet<ServiceRef> {
        let service = |index: usize| {
            let namespace = format!("team-{}", index % namespaces);
            ServiceRef::new(namespace, format!("{index:0length$}"))
        };
        (0..count).map(service).collect()
    }

    #[test]
    fn names_fill_as_few_selectors_as_a_request_line_takes() {
        let rows = [
            ("no export", (0, 1, 5), 0, None),
            ("one", (1, 1, 5), 1, Some("team-0")),
            ("many in one namespace", (100, 1, 5), 1, Some("team-0")),
            ("many in some namespaces", (100, 4, 20), 1, None),
            ("the longest names", (130, 4, 63), 3, None),
            ("more than eight lists", (999, 4, 63), 1, None),
        ];
        for (case, (count, namespaces, length), expected, namespace) in rows {
            let lists = lists(&services(count, namespaces, length));
            assert_eq!(lists.len(), expected, "{case}");
            for list in lists {
                assert_eq!(list.namespace.as_deref(), namespace, "{case}");
                let line = list.selector.replace(',', "%2C");
                assert!(line.len() < LONGEST + 100, "{case}: {}", line.len());
            }
        }
    }

    #[test]
    fn same_name_in_two_namespaces_is_one_name_and_slices_of_imports_are_left_out_of_all() {
        let web = ["shop", "team"].map(|namespace| ServiceRef::new(namespace, "web"));
        let [list] = lists(&web.into()).try_into().expect("one list");
        assert_eq!(list.selector, "kubernetes.io/service-name=web");
        let all = lists(&services(999, 2, 63)).remove(0).selector;
        assert_eq!(
            all,
            "kubernetes.io/service-name,endpointslice.kubernetes.io/managed-by!=cloud-map-sync"
        );
    }
}
