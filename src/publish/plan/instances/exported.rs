//! The instances of one endpoint of an exported Service: one for each address and each port of the Service, with the
//! attributes of AWS's controller. [`super::shape`] has the rules of annotated Services.

use std::net::IpAddr;

use super::identity::Identity;
use super::shape::{Fit, Shape};
use crate::clusterset::{attributes, endpoints};
use crate::model::clusterset::{ExportedEndpoint, ExportedService, PortOfService};
use crate::model::{Attributes, Endpoint, Marks, Owner, ServiceRef};
use crate::publish::plan::Reason;

impl Shape<'_> {
    /// The instances of an endpoint of `exported`, at the addresses that may be published.
    pub(super) fn fit_exported(
        &self,
        exported: &ExportedService,
        endpoint: &Endpoint,
        service: &ServiceRef,
        owner: &Owner,
    ) -> Fit {
        let (publishable, mut fit) = self.publishable(endpoint);
        let marks = Marks { service: service.clone(), pod: endpoint.pod.clone() }.write(owner);
        let all = endpoints::endpoints_of(exported, endpoint, owner.cluster.region());
        let carried = |address: IpAddr| publishable.contains(&address) && self.carries(address);
        for endpoint in all.into_iter().filter(|endpoint| carried(endpoint.address)) {
            let refused = match self.needs_port().filter(|_| endpoint.port.is_none()) {
                _ if !self.allows_check_of(endpoint.address) => Reason::AddressNotCheckable,
                Some(needed_by) => Reason::PortNeeded { needed_by, ports: 0 },
                None => {
                    fit.instances.push(self.instance(exported, &endpoint, &marks));
                    continue;
                }
            };
            fit.held_back.push(refused);
            fit.unclear.push(endpoint.address);
        }
        fit
    }

    fn instance(
        &self,
        exported: &ExportedService,
        endpoint: &ExportedEndpoint,
        marks: &Attributes,
    ) -> (Identity, Attributes) {
        let (ipv4, ipv6) = match endpoint.address {
            IpAddr::V4(address) => (Some(address), None),
            IpAddr::V6(address) => (None, Some(address)),
        };
        let port = endpoint.port.as_ref().filter(|_| self.tells_ports_apart());
        let service_port = port.map(|port| {
            Box::new(PortOfService {
                protocol: port.service_protocol,
                name: port.service_name.clone(),
            })
        });
        let identity = Identity { ipv4, ipv6, port: port.map(|port| port.number), service_port };
        let mut written = attributes::write(&exported.export, &exported.clusterset, endpoint);
        written.extend(marks);
        (identity, written)
    }
}
