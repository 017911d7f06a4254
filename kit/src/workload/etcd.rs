//! etcd on a host, over TLS: who asks it needs a certificate of the authority that vouches for it.

use base64ct::{Base64, Encoding};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::usual::*;

const PORT: u16 = 2379;
const HEALTHY_WITHIN: Duration = Duration::from_secs(30);

/// A member that is a cluster by itself; its data lives as long as this value.
#[derive(Debug)]
pub struct Etcd<'a> {
    host: &'a Namespace,
    address: IpAddr,
    directory: TempDir,
    process: Option<Process>,
}

impl<'a> Etcd<'a> {
    pub fn start(host: &'a Namespace, address: IpAddr) -> Result<Etcd<'a>> {
        let directory = tempfile::tempdir().context("a directory for etcd")?;
        certify(directory.path(), address)?;
        let mut etcd = Etcd { host, address, directory, process: None };
        etcd.start_again()?;
        Ok(etcd)
    }

    /// Starts it with the data that it had.
    pub fn start_again(&mut self) -> Result<()> {
        let mut command = self.host.command("etcd");
        let (url, data) = (self.url(), self.directory.path().join("data"));
        command.arg("--data-dir").arg(data);
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", "http://127.0.0.1:2380"]);
        command.args(["--client-cert-auth", "--log-level", "error"]);
        for (flag, file) in
            [("--trusted-ca-file", "ca.crt"), ("--cert-file", "etcd.crt"), ("--key-file", "etcd.key")]
        {
            command.arg(flag).arg(self.file(file));
        }
        let is_healthy = || Ok(self.ask(&["endpoint", "health"]).ok());
        let (process, _) =
            Process::start(command)?.until("an etcd that answers", HEALTHY_WITHIN, is_healthy)?;
        self.process = Some(process);
        Ok(())
    }

    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("etcd has ended already")?.kill().map(drop)
    }

    pub fn url(&self) -> String {
        format!("https://{}:{PORT}", self.address)
    }

    /// The file of this name: `ca.crt`, `client.crt` with `client.key`, and of somebody whom it does not trust
    /// `stranger.crt` with `stranger.key`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn ask(&self, arguments: &[&str]) -> Result<String> {
        let mut command: Command = self.host.command("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.url()]);
        for (flag, file) in [("--cacert", "ca.crt"), ("--cert", "client.crt"), ("--key", "client.key")] {
            command.arg(flag).arg(self.file(file));
        }
        process::run(command.args(arguments))
    }
}

/// An authority, certificates of it for etcd at `address` and for a client, and a stranger's.
fn certify(directory: &Path, address: IpAddr) -> Result<()> {
    let (authority, key) = authority()?;
    fs::write(directory.join("ca.crt"), pem("CERTIFICATE", authority.self_signed(&key)?.der())?)?;
    let issuer = Issuer::new(authority, key);
    let (other, key) = self::authority()?;
    let other = Issuer::new(other, key);
    for (name, address, issuer) in
        [("etcd", Some(address), &issuer), ("client", None, &issuer), ("stranger", None, &other)]
    {
        let key = KeyPair::generate()?;
        let certificate = named(name, address)?.signed_by(&key, issuer)?;
        fs::write(directory.join(format!("{name}.crt")), pem("CERTIFICATE", certificate.der())?)?;
        fs::write(directory.join(format!("{name}.key")), pem("PRIVATE KEY", &key.serialize_der())?)?;
    }
    Ok(())
}

fn authority() -> Result<(CertificateParams, KeyPair)> {
    let mut authority = named("authority", None)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok((authority, KeyPair::generate()?))
}

/// Without a common name: once etcd has users, its JSON gateway refuses certificates that have one.
fn named(name: &str, address: Option<IpAddr>) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(address.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, name);
    Ok(params)
}

/// RFC 7468.
fn pem(label: &str, der: &[u8]) -> Result<String> {
    const LINE: usize = 64;
    let text = Base64::encode_string(der);
    let lines: Vec<&str> = text.as_bytes().chunks(LINE).map(std::str::from_utf8).collect::<Result<_, _>>()?;
    Ok(format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n")))
}
