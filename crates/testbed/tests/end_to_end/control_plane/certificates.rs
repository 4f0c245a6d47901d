//! The keys and certificates of one control plane, made new for each and written into its folder.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

pub(super) const SERVER_CERTIFICATE: &str = "kube-apiserver.crt";
pub(super) const SERVER_KEY: &str = "kube-apiserver.key";
/// Of the authority that signed the others.
pub(super) const AUTHORITY_CERTIFICATE: &str = "authority.crt";
/// With which kube-apiserver shows a kubelet who it is.
pub(super) const KUBELET_CLIENT_CERTIFICATE: &str = "kubelet-client.crt";
pub(super) const KUBELET_CLIENT_KEY: &str = "kubelet-client.key";
pub(super) const KUBELET_CERTIFICATE: &str = "kubelet.crt";
pub(super) const KUBELET_KEY: &str = "kubelet.key";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-accounts.key";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-accounts.pub";

/// Makes the certificates of kube-apiserver and of a kubelet, and the key of `ServiceAccount` tokens; returns the
/// certificate of the authority that signed the former, as PEM.
pub(super) fn write(folder: &Path) -> String {
    let authority = authority();
    let accounts = new_key();
    let mut files = vec![
        (AUTHORITY_CERTIFICATE, authority.pem()),
        (SERVICE_ACCOUNT_KEY, accounts.serialize_pem()),
        (SERVICE_ACCOUNT_PUBLIC_KEY, accounts.public_key_pem()),
    ];
    for (certificate, key, usage) in [
        (SERVER_CERTIFICATE, SERVER_KEY, ExtendedKeyUsagePurpose::ServerAuth),
        (KUBELET_CERTIFICATE, KUBELET_KEY, ExtendedKeyUsagePurpose::ServerAuth),
        (KUBELET_CLIENT_CERTIFICATE, KUBELET_CLIENT_KEY, ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let own = new_key();
        let signed = of_this_machine(usage).signed_by(&own, &authority);
        files.push((certificate, signed.expect("the authority signs").pem()));
        files.push((key, own.serialize_pem()));
    }
    for (name, content) in files {
        fs::write(folder.join(name), content).expect("the folder of the test is writable");
    }
    authority.pem()
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters.distinguished_name.push(DnType::CommonName, "control plane of a test");
    CertifiedIssuer::self_signed(parameters, new_key()).expect("a key signs its own certificate")
}

fn of_this_machine(usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let names = ["127.0.0.1", "localhost"].map(String::from);
    let mut parameters = CertificateParams::new(names).expect("valid names");
    parameters.extended_key_usages = vec![usage];
    parameters
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a new key")
}
