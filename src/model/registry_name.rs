//! The name of a registry for users: its account and Region.

use std::fmt;

/// A registry, as `ACCOUNT/REGION`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryName {
    pub account: String,
    pub region: String,
}

impl RegistryName {
    /// Returns `None` if the text is not `ACCOUNT/REGION`.
    pub fn parse(text: &str) -> Option<Self> {
        let (account, region) = text.split_once('/')?;
        let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        let in_region =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_region = (1..=32).contains(&region.len()) && region.bytes().all(in_region);
        let name = || Self { account: account.to_owned(), region: region.to_owned() };
        (is_account && is_region).then(name)
    }
}

impl fmt::Display for RegistryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.account, self.region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_and_a_region_name_a_cloud_map() {
        let name = RegistryName::parse("111122223333/eu-central-1").expect("a name");
        assert_eq!((name.account.as_str(), name.region.as_str()), ("111122223333", "eu-central-1"));
        assert_eq!(name.to_string(), "111122223333/eu-central-1");
        for text in
            ["", "eu-central-1", "1/eu-central-1", "111122223333/", "111122223333/EU", "a/b/c"]
        {
            assert_eq!(RegistryName::parse(text), None, "{text}");
        }
    }
}
