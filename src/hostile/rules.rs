//! The rules for every reader: the form of a refusal, and what Cloud Map accepts. The patterns are those of the service
//! model (`servicediscovery/2017-03-14/service-2.json` of botocore 1.43: `AttrKey`, `AttrValue`, `InstanceId`,
//! `ServiceName`, `NamespaceNameHttp`, `RecordTTL`), written down again and not taken from the code under test.

use std::fmt::Display;
use std::net::IpAddr;

use crate::clusterset::limits;
use crate::model::Attributes;

/// The attributes of Cloud Map's own that this function writes.
const WRITTEN: [&str; 4] =
    ["AWS_INSTANCE_IPV4", "AWS_INSTANCE_IPV6", "AWS_INSTANCE_PORT", "AWS_INIT_HEALTH_STATUS"];

/// A refusal is one line of at most so many characters, and nothing in it moves a cursor, turns a line round or ends it.
pub fn assert_line(text: &impl Display, most: usize) {
    let text = text.to_string();
    let length = text.chars().count();
    assert!(length <= most, "{length} characters: {}", text.chars().take(300).collect::<String>());
    let bad = text.chars().find(|it| is_control(*it));
    assert_eq!(bad, None, "{text:?}");
}

fn is_control(letter: char) -> bool {
    let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || turns || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Labels of letters, digits, `_` and `-`, between dots: `[a-zA-Z0-9_][a-zA-Z0-9-_]{0,61}[a-zA-Z0-9_]|[a-zA-Z0-9]`.
pub fn assert_service_name(name: &str) {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_label = |label: &str| match label.as_bytes() {
        [one] => one.is_ascii_alphanumeric(),
        [first, inner @ .., last] => {
            let is_inner = |byte: &u8| is_end(*byte) || *byte == b'-';
            inner.len() <= 61 && is_end(*first) && is_end(*last) && inner.iter().all(is_inner)
        }
        [] => false,
    };
    assert!((1..=127).contains(&name.len()) && name.split('.').all(is_label), "{name:?}");
}

/// `^(?!arn:)[!-~]{1,1024}$`
pub fn assert_namespace_name(name: &str) {
    let is_graphic = name.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(
        (1..=1024).contains(&name.len()) && is_graphic && !name.starts_with("arn:"),
        "{name:?}"
    );
}

/// `^[0-9a-zA-Z_/:.@-]+$`, and ours are DNS labels, since an SRV record has the id in its target.
pub fn assert_instance_id(id: &str) {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = (1..=63).contains(&id.len()) && id.bytes().all(inner);
    assert!(is_label && !id.starts_with('-') && !id.ends_with('-'), "{id:?}");
}

/// The attributes of an instance with at least one address: within Cloud Map's limits, with addresses that may leave a
/// cluster, and none of Cloud Map's own but those that this function means to write.
pub fn assert_instance(attributes: &Attributes) {
    limits::assert_accepted(attributes);
    let mut addresses = 0;
    for (key, value) in attributes.iter().filter(|(key, _)| key.starts_with("AWS_")) {
        assert!(WRITTEN.contains(&key), "{key}");
        match key {
            "AWS_INSTANCE_PORT" => {
                let port: u16 = value.parse().expect("a port");
                assert!(port > 0 && port.to_string() == value, "{value}");
            }
            "AWS_INIT_HEALTH_STATUS" => assert!(["HEALTHY", "UNHEALTHY"].contains(&value)),
            _ => {
                let address: IpAddr = value.parse().expect("an address");
                assert_eq!(address.is_ipv4(), key == "AWS_INSTANCE_IPV4", "{value}");
                assert_reachable(address);
                addresses += 1;
            }
        }
    }
    assert!(addresses > 0, "{attributes:?}");
}

/// Not loopback, link-local (with the metadata of EC2), multicast, broadcast, unspecified or IPv4-mapped.
pub fn assert_reachable(address: IpAddr) {
    let is_special = match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            first == 127
                || (first, second) == (169, 254)
                || (224..240).contains(&first)
                || [u32::MIN, u32::MAX].contains(&v4.to_bits())
        }
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            let first = v6.segments()[0];
            let is_mapped = bits >> 32 == 0xffff;
            bits <= 1 || is_mapped || first & 0xffc0 == 0xfe80 || first & 0xff00 == 0xff00
        }
    };
    assert!(!is_special, "{address}");
}
