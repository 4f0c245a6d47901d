//! The addresses that may leave a cluster.

use std::net::IpAddr;

/// Whether other hosts can use an address. Kubernetes allows some of the others in an `EndpointSlice`, and any client
/// of Cloud Map can register them.
pub fn is_publishable(address: IpAddr) -> bool {
    let special = address.is_loopback() || address.is_multicast() || address.is_unspecified();
    let local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !special && !local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_means_something_else_on_each_host_is_not_published() {
        let published = ["10.0.1.5", "100.64.0.1", "169.253.255.255", "fd00::1", "2600:1f14::7"];
        let never = [
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "224.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "::ffff:10.0.1.5",
        ];
        let is_published = |text: &str| is_publishable(text.parse().expect("an address"));
        for text in published {
            assert!(is_published(text), "{text}");
        }
        for text in never {
            assert!(!is_published(text), "{text}");
        }
    }
}
