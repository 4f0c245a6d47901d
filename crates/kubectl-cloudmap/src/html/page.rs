//! The page: the progress of the move, each service with its instances by platform, the held-back requests, and the
//! changes of the next sync. It is written as HTML from `status` and `plan`.

use std::fmt::{self, Display, Formatter};

use super::clusterset::Members;
use super::row::{Bar, Row, parts};
use crate::outside::{Output, escape};
use cloud_map_sync::actions::status::{ServiceStatus, Split, Status};
use cloud_map_sync::model::Timestamp;
use cloud_map_sync::report::{HeldBackLine, Report, ServiceReport};

const STYLE: &str = include_str!("style.css");

pub struct Page<'a> {
    pub status: &'a Status,
    pub before: Option<&'a Status>,
    pub plan: &'a Report,
    /// The time of both.
    pub now: Timestamp,
}

/// Text from outside.
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(self.0, Output::Html))
    }
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        let policy = "default-src 'none'; style-src 'unsafe-inline'";
        writeln!(f, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")?;
        writeln!(f, "<meta name=\"viewport\" content=\"width=device-width\">")?;
        writeln!(f, "<title>Cloud Map: ECS and EKS</title>\n<style>\n{STYLE}</style>\n</head>")?;
        writeln!(f, "<body>\n<main>\n<h1>Cloud Map: ECS and EKS</h1>")?;
        let clusters = self.status.clusters.join(", ");
        writeln!(f, "<p class=\"about\">{}<br>{}</p>", Text(&clusters), self.now)?;
        self.write_overview(f)?;
        self.write_problems(f)?;
        self.write_services(f)?;
        self.write_held_back(f)?;
        self.write_changes(f)?;
        write!(f, "{}", Members(self.plan))?;
        writeln!(f, "<footer>Made by <code>kubectl cloudmap report --html</code>.</footer>")?;
        writeln!(f, "</main>\n</body>\n</html>")
    }
}

impl Page<'_> {
    fn all(&self) -> impl Iterator<Item = &ServiceStatus> {
        self.status.registries.iter().flat_map(|registry| &registry.services)
    }

    fn sum(&self) -> Split {
        self.all().fold(Split::default(), |sum, service| sum.plus(self.status.split(service)))
    }

    fn write_overview(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sum = self.sum();
        writeln!(f, "<section class=\"tiles\">")?;
        let (kubernetes, ecs) = (sum.ours + sum.other_clusters, sum.ecs);
        let moved = (kubernetes * 100).checked_div(kubernetes + ecs);
        let moved = moved.map_or("–".to_owned(), |share| format!("{share} %"));
        let held_back = self.all_held_back().count() + Members(self.plan).held_back();
        for (number, label) in [
            (moved, "of the EKS and ECS instances run on EKS"),
            (self.all().count().to_string(), "Cloud Map services"),
            (kubernetes.to_string(), "instances of EKS"),
            (ecs.to_string(), "instances of ECS"),
            (held_back.to_string(), "held back"),
        ] {
            writeln!(f, "<div class=\"tile\"><b>{number}</b><span>{label}</span></div>")?;
        }
        writeln!(f, "</section>\n{}", Bar { status: self.status, split: sum, class: " whole" })?;
        f.write_str("<div class=\"legend\">")?;
        for ((part, label), count) in parts(self.status).into_iter().zip(sum.counts()) {
            if count > 0 {
                write!(f, "<i class=\"{part}\"></i>{label} {count}")?;
            }
        }
        writeln!(f, "</div>")
    }

    /// The read errors. They come first, since all numbers below exclude the unread parts.
    fn write_problems(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let registries = self.status.registries.iter().filter_map(|it| it.error.as_ref());
        let clusters = self.plan.clusters.iter();
        let clusters = clusters.filter_map(|cluster| cluster.error.as_ref());
        let problems: Vec<&String> = registries.chain(clusters).collect();
        if problems.is_empty() {
            return Ok(());
        }
        writeln!(f, "<h2 class=\"bad\">Not read</h2>")?;
        problems
            .iter()
            .try_for_each(|problem| writeln!(f, "<p class=\"bad\">{}</p>", Text(problem)))
    }

    fn write_services(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "<h2>Instances by platform</h2>\n<table>")?;
        f.write_str("<tr><th>Service</th><th>Type</th><th>State</th><th></th>")?;
        let label = parts(self.status).map(|(_, label)| label);
        label.iter().try_for_each(|label| write!(f, "<th class=\"number\">{label}</th>"))?;
        let since = if self.before.is_some() { "<th>Changes since</th>" } else { "" };
        writeln!(f, "{since}</tr>")?;
        let (status, before) = (self.status, self.before);
        self.all().try_for_each(|service| write!(f, "{}", Row { status, service, before }))?;
        writeln!(f, "</table>")
    }

    fn all_held_back(&self) -> impl Iterator<Item = &HeldBackLine> {
        let clusters = self.plan.clusters.iter();
        clusters.flat_map(|cluster| {
            let of_services = cluster.services.iter().flat_map(|service| &service.held_back);
            cluster.held_back.iter().chain(of_services)
        })
    }

    fn write_held_back(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "<h2>Conflicts and other held-back requests</h2>")?;
        if self.all_held_back().next().is_none() {
            return writeln!(f, "<p class=\"good\">None.</p>");
        }
        writeln!(
            f,
            "<table>\n<tr><th>Kubernetes Service</th><th>Reason</th><th>Details</th></tr>"
        )?;
        for line in self.all_held_back() {
            let service = line.service.to_string();
            let (service, reason, detail) =
                (Text(&service), Text(&line.reason), Text(&line.detail));
            writeln!(
                f,
                "<tr><td><code>{service}</code></td><td>{reason}</td><td>{detail}</td></tr>"
            )?;
        }
        writeln!(f, "</table>")
    }

    fn write_changes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "<h2>Changes of the next sync</h2>")?;
        let report = self.plan;
        if let Some(cut) = &report.cut {
            writeln!(f, "<p>{}</p>", Text(cut))?;
        }
        writeln!(f, "<p>{}</p>", Text(&report.summary()))?;
        let services = report.clusters.iter().flat_map(|cluster| &cluster.services);
        let changed: Vec<&ServiceReport> = services.filter(|it| !it.changes.is_empty()).collect();
        if changed.is_empty() {
            return Ok(());
        }
        writeln!(f, "<table>\n<tr><th>Service</th><th>Change</th><th>Instance</th><th></th></tr>")?;
        for service in changed {
            let place = format!("{}/{}", service.namespace, service.name);
            for line in &service.changes {
                let instance = line.instance.as_deref().unwrap_or_default();
                let [place, instance] = [Text(&place), Text(instance)];
                let (change, detail) = (Text(line.change.as_str()), Text(&line.detail));
                writeln!(
                    f,
                    "<tr><td><code>{place}</code></td><td>{change}</td><td><code>{instance}</code></td><td>{detail}</td></tr>"
                )?;
            }
        }
        writeln!(f, "</table>")
    }
}
