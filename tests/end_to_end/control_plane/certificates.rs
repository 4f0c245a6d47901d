//! The keys and certificates of one control plane, made new for each and written into its folder.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

pub(super) const SERVER_CERTIFICATE: &str = "kube-apiserver.crt";
pub(super) const SERVER_KEY: &str = "kube-apiserver.key";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-accounts.key";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-accounts.pub";

/// Makes kube-apiserver's certificate and the key of `ServiceAccount` tokens; returns the certificate
/// of the authority that signed the former, as PEM.
pub(super) fn write(folder: &Path) -> String {
    let authority = authority();
    let server_key = new_key();
    let certificate = server().signed_by(&server_key, &authority).expect("the authority signs");
    let accounts = new_key();
    for (name, content) in [
        (SERVER_CERTIFICATE, certificate.pem()),
        (SERVER_KEY, server_key.serialize_pem()),
        (SERVICE_ACCOUNT_KEY, accounts.serialize_pem()),
        (SERVICE_ACCOUNT_PUBLIC_KEY, accounts.public_key_pem()),
    ] {
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

fn server() -> CertificateParams {
    let names = ["127.0.0.1", "localhost"].map(String::from);
    let mut parameters = CertificateParams::new(names).expect("valid names");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a new key")
}
