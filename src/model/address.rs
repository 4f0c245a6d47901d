//! The addresses that may leave a cluster.

use std::net::{IpAddr, Ipv4Addr};

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

/// The address in a text with leading zeros, as kube-proxy reads it: in decimal. Other programs read it in octal.
pub fn without_leading_zeros(text: &str) -> Option<Ipv4Addr> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let octets = text.split('.').map(|part| part.parse().ok().filter(|_| digits(part)));
    let octets: [u8; 4] = octets.collect::<Option<Vec<u8>>>()?.try_into().ok()?;
    Some(octets.into())
}

/// Whether Cloud Map takes the address in a service with a health check of Route 53, which calls each instance from the
/// internet. It refuses at least 10.0.0.0/8 and 192.0.2.0/24; the other networks of RFC 1918 are as private. An address
/// that only Cloud Map refuses is an error of the call.
pub fn is_checkable(address: Ipv4Addr) -> bool {
    !address.is_private() && !matches!(address.octets(), [192, 0, 2, _])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_are_left_out() {
        let meant = |text: &str| without_leading_zeros(text).map(|it| it.to_string());
        assert_eq!(meant("010.001.000.005").as_deref(), Some("10.1.0.5"));
        for text in ["", "10.1.0", "10.1.0.5.6", "10.1.0.256", "+10.1.0.5", "10..0.5", "fd00::1"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }

    #[test]
    fn private_addresses_are_not_checkable() {
        let checkable = ["9.255.255.255", "11.0.0.0", "172.32.0.0", "100.64.0.1", "192.0.3.1"];
        let never = ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.9.9", "192.168.0.1"];
        let is_checkable = |text: &str| is_checkable(text.parse().expect("an address"));
        for text in checkable {
            assert!(is_checkable(text), "{text}");
        }
        for text in never.into_iter().chain(["192.0.2.0", "192.0.2.255"]) {
            assert!(!is_checkable(text), "{text}");
        }
    }

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
