//! The DNS of the stage answers from the stand-in of Cloud Map as Route 53 does: at most eight addresses of a name in
//! random order, with the record's TTL; NXDOMAIN for a name without an instance, which resolvers keep for the time of
//! the SOA. Four servers share the work, and each sees a change at another time; a query reaches any of them.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use simple_dns::rdata::{A, RData, SOA};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use testbed::cloud_map::CloudMap;
use tokio::net::UdpSocket;

use crate::network;
use crate::times::Times;

/// The most addresses in one answer.
const ADDRESSES: usize = 8;
/// The servers of a zone, each with its own delay.
const SERVERS: u32 = 4;
/// How often the stand-in is asked for what it has.
const LOOK: Duration = Duration::from_millis(20);
/// How long a resolver may keep that a name does not exist, in seconds of the real world: the `SOA.TTL` of the namespace.
/// Assumed: AWS documents no default.
const NEGATIVE_TTL: u32 = 15;

/// The running server; clones share it.
#[derive(Clone)]
pub struct Dns {
    times: Times,
    zones: Arc<Mutex<BTreeMap<String, Zone>>>,
}

/// A namespace of Cloud Map with one name in it.
struct Zone {
    cloud_map: CloudMap,
    service: String,
    /// The records of the name by the time from which they are valid; the newest are last.
    history: VecDeque<(Instant, Records)>,
}

#[derive(Clone, Default, PartialEq)]
struct Records {
    addresses: Vec<Ipv4Addr>,
    ttl: u32,
}

impl Dns {
    /// Listens on port 53.
    pub async fn start(times: Times) -> Result<Self, String> {
        let address = SocketAddr::from((network::DNS, 53));
        let socket = UdpSocket::bind(address).await;
        let socket = socket.map_err(|error| format!("DNS on {address}: {error}"))?;
        let dns = Self { times, zones: Arc::default() };
        tokio::spawn(dns.clone().follow());
        tokio::spawn(dns.clone().serve(socket));
        Ok(dns)
    }

    /// Answers for the host of a Cloud Map service from now on.
    pub fn add(&self, host: &str, cloud_map: CloudMap, service: &str) {
        let zone = Zone { cloud_map, service: service.to_owned(), history: VecDeque::new() };
        self.zones.lock().expect("no poisoned lock").insert(host.to_owned(), zone);
    }

    /// Waits until every server has what Cloud Map has now.
    pub async fn settle(&self) {
        tokio::time::sleep(self.times.seconds(self.times.propagation) + 2 * LOOK).await;
    }

    async fn follow(self) {
        loop {
            for zone in self.zones.lock().expect("no poisoned lock").values_mut() {
                zone.look(self.times);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn serve(self, socket: UdpSocket) {
        let mut buffer = [0; 4096];
        let mut turn = 0;
        loop {
            let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
            turn += 1;
            if let Some(answer) = self.answer(&buffer[..length], turn) {
                // The client asks again if it does not come.
                let _ = socket.send_to(&answer, client).await;
            }
        }
    }

    fn answer(&self, query: &[u8], turn: u32) -> Option<Vec<u8>> {
        let query = Packet::parse(query).ok()?;
        let question = query.questions.first()?.clone();
        let host = question.qname.to_string().trim_end_matches('.').to_ascii_lowercase();
        let mut reply = Packet::new_reply(query.id());
        reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
        if query.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        let records = self.records(&host, random(turn) % SERVERS).unwrap_or_default();
        if matches!(question.qtype, QTYPE::TYPE(TYPE::A)) {
            let mut addresses = records.addresses.clone();
            shuffle(&mut addresses, turn);
            for address in addresses.into_iter().take(ADDRESSES) {
                let data = RData::A(A::from(address));
                let name = question.qname.clone();
                reply.answers.push(ResourceRecord::new(name, CLASS::IN, records.ttl, data));
            }
        }
        if records.addresses.is_empty() {
            *reply.rcode_mut() = RCODE::NameError;
        }
        if reply.answers.is_empty() {
            reply.name_servers.push(self.start_of_authority()?);
        }
        reply.questions.push(question);
        reply.build_bytes_vec().ok()
    }

    fn start_of_authority(&self) -> Option<ResourceRecord<'static>> {
        let seconds = self.times.ttl(NEGATIVE_TTL);
        let soa = SOA {
            mname: Name::new("ns-1536.awsdns-00.co.uk").ok()?,
            rname: Name::new("awsdns-hostmaster.amazon.com").ok()?,
            serial: 1,
            refresh: 7200,
            retry: 900,
            expire: 1_209_600,
            minimum: seconds,
        };
        let zone = Name::new("test").ok()?;
        Some(ResourceRecord::new(zone, CLASS::IN, seconds, RData::SOA(soa)))
    }

    /// Returns the records that a server knows: those that were valid before its lag.
    fn records(&self, host: &str, server: u32) -> Option<Records> {
        let zones = self.zones.lock().expect("no poisoned lock");
        let zone = zones.get(host)?;
        let lag = self.times.seconds(self.times.propagation) * (server + 1) / SERVERS;
        let seen = Instant::now().checked_sub(lag)?;
        let version = zone.history.iter().rev().find(|(from, _)| *from <= seen);
        version.map(|(_, records)| records.clone())
    }
}

impl Zone {
    fn look(&mut self, times: Times) {
        let instances = self.cloud_map.instances(&self.service);
        let health = self.cloud_map.health(&self.service);
        let mut healthy = Vec::new();
        let mut all = Vec::new();
        for (id, attributes) in &instances {
            let Some(address) = attributes.get("AWS_INSTANCE_IPV4") else { continue };
            let Ok(address) = address.parse::<Ipv4Addr>() else { continue };
            all.push(address);
            if health.get(id) != Some(&"UNHEALTHY") {
                healthy.push(address);
            }
        }
        // Route 53 answers with all of them if none is healthy.
        let mut addresses = if healthy.is_empty() { all } else { healthy };
        addresses.sort();
        addresses.dedup();
        let records = Records { addresses, ttl: self.ttl(times) };
        if self.history.back().is_none_or(|(_, newest)| *newest != records) {
            self.history.push_back((Instant::now(), records));
        }
    }

    fn ttl(&self, times: Times) -> u32 {
        let namespaces = self.cloud_map.namespaces();
        let services = namespaces.keys().flat_map(|id| self.cloud_map.services(id));
        let own = services.filter(|service| service.id == self.service);
        let records = own.filter_map(|service| service.dns).flat_map(|dns| dns.records);
        let ttl = records.map(|(_, ttl)| ttl).min().unwrap_or_default();
        times.ttl(u32::try_from(ttl).unwrap_or(u32::MAX))
    }
}

/// A number that depends on the turn alone and looks random.
fn random(turn: u32) -> u32 {
    let mut mixed = turn.wrapping_mul(0x9E37_79B9);
    mixed ^= mixed >> 16;
    mixed = mixed.wrapping_mul(0x85EB_CA6B);
    mixed ^ (mixed >> 13)
}

fn shuffle(addresses: &mut [Ipv4Addr], turn: u32) {
    addresses.sort_by_key(|address| random(address.to_bits() ^ turn.wrapping_mul(2_654_435_761)));
}
