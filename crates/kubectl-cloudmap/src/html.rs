//! `report --html`: one self-contained page without a script, about the move of services from ECS to EKS. It is written
//! from the answers of `status` and `plan`. With an earlier status it also shows the changes since then.
//!
//! Each row has the CSS classes of its clusters (`PageClusters`). A click on a link of the filter makes the link the
//! page's `:target`, and a CSS rule then hides the rows of other clusters. On a phone a row becomes a card
//! (`style.css`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter, Write as _};

use super::{Code, Error, FunctionRequest, Output, answer, arguments, ask, escape, scope, write};
use cloud_map_sync::actions::status::{ServiceStatus, ShareOf, Split, Status, sum};
use cloud_map_sync::model::{ClusterArn, Line, Outcome, Timestamp, join};
use cloud_map_sync::report::Report;

#[cfg(test)]
mod tests;

const STYLE: &str = include_str!("html/style.css");
/// The states of a service in the move. The page has a group for each state.
const STATES: [&str; 6] =
    ["not read", "on ECS only", "on ECS and EKS", "on EKS only", "on neither", "without instances"];

/// Requests the status and a plan, and writes the page to standard output.
pub async fn show(arguments: arguments::ReportArguments) -> Result<Code, Error> {
    let arguments::ReportArguments { since, clusters, aws, html: _ } = arguments;
    let before = since.as_deref().map(|file| answer::read_saved(file, "status")).transpose()?;
    let scope = scope::resolve(&clusters.into())?;
    let status = ask::<Status>(&aws, &FunctionRequest::new("status", scope.clone())).await?;
    let plan = ask::<Report>(&aws, &FunctionRequest::new("plan", scope)).await?;
    let now = cloud_map_sync::time::Clock::system().now();
    let status = &status.parsed;
    let code = plan.code();
    let page = HtmlPage { status, before: before.as_ref(), plan: &plan.parsed, now };
    write(&page.to_string())?;
    Ok(Code::from_success(status.ok && code != Code::Error))
}

pub struct HtmlPage<'a> {
    pub status: &'a Status,
    pub before: Option<&'a Status>,
    pub plan: &'a Report,
    /// The time when the status and the plan were read.
    pub now: Timestamp,
}

/// Escapes text from outside.
fn html(text: &str) -> String {
    escape(text, Output::Html)
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", html(text))
}

/// The ARNs of the clusters of a page. The index of an ARN is the number in its CSS class.
struct PageClusters<'a>(BTreeSet<&'a str>);

impl PageClusters<'_> {
    /// Returns the CSS classes of a row about these clusters.
    fn classes(&self, clusters: &BTreeSet<&str>) -> String {
        let all = self.0.iter().enumerate();
        let classes =
            all.filter(|(_, cluster)| clusters.contains(*cluster)).map(|(at, _)| format!("c{at}"));
        join(classes, " ")
    }

    /// Returns a cluster's name, or its ARN if another cluster of the page has the same name.
    fn label(&self, cluster: &str) -> String {
        let name = |arn: &str| ClusterArn::parse(arn).map(|arn| arn.name().to_owned());
        let named =
            |own: &String| self.0.iter().filter(|arn| name(arn).as_ref() == Some(own)).count();
        let unique = name(cluster).filter(|own| named(own) < 2);
        html(&unique.unwrap_or_else(|| cluster.to_owned()))
    }
}

/// The CSS classes of a row's clusters, and its cells as HTML.
type HtmlRow = (String, Vec<String>);

fn write_table(f: &mut Formatter<'_>, headings: &[&str], rows: &[HtmlRow]) -> fmt::Result {
    write!(f, "<table class=\"of{}\">\n<thead><tr>", headings.len())?;
    headings.iter().try_for_each(|heading| write!(f, "<th scope=\"col\">{heading}</th>"))?;
    writeln!(f, "</tr></thead>\n<tbody>")?;
    for (clusters, cells) in rows {
        write!(f, "<tr class=\"row {clusters}\">")?;
        for (heading, cell) in headings.iter().zip(cells) {
            write!(f, "<td data-heading=\"{heading}\">{cell}</td>")?;
        }
        writeln!(f, "</tr>")?;
    }
    writeln!(f, "</tbody>\n</table>")
}

impl Display for HtmlPage<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let clusters = self.clusters();
        writeln!(f, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        let policy = "default-src 'none'; style-src 'unsafe-inline'";
        writeln!(f, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")?;
        writeln!(f, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
        writeln!(f, "<title>Cloud Map: ECS and EKS</title>\n<style>\n{STYLE}")?;
        for at in 0..clusters.0.len() {
            let chosen = format!(":root:has(#c{at}:target)");
            writeln!(
                f,
                "{chosen} .row:not(.c{at}), {chosen} .group:not(:has(.c{at})) {{ display: none; }}"
            )?;
        }
        writeln!(f, "</style>\n</head>\n<body>\n<main>\n<h1>Cloud Map: ECS and EKS</h1>")?;
        self.write_overview(f)?;
        self.write_problems(f, &clusters)?;
        write_filter(f, &clusters)?;
        self.write_services(f, &clusters)?;
        self.write_held_back(f, &clusters)?;
        self.write_changes(f, &clusters)?;
        self.write_clustersets(f, &clusters)?;
        writeln!(f, "<footer>Made by <code>kubectl cloudmap report --html</code>.</footer>")?;
        writeln!(f, "</main>\n</body>\n</html>")
    }
}

fn write_filter(f: &mut Formatter<'_>, clusters: &PageClusters<'_>) -> fmt::Result {
    if clusters.0.len() < 2 {
        return Ok(());
    }
    write!(f, "<nav aria-label=\"Clusters\"><a id=\"all\" href=\"#all\">all clusters</a>")?;
    for (at, cluster) in clusters.0.iter().enumerate() {
        let arn = html(cluster);
        let label = clusters.label(cluster);
        write!(f, " <a id=\"c{at}\" href=\"#c{at}\" title=\"{arn}\">{label}</a>")?;
    }
    writeln!(f, "</nav>")
}

impl HtmlPage<'_> {
    fn services(&self) -> impl Iterator<Item = &ServiceStatus> {
        self.status.registries.iter().flat_map(|registry| &registry.services)
    }

    /// Returns the clusters of the status and of the plan, and the clusters that have instances.
    fn clusters(&self) -> PageClusters<'_> {
        let planned = self.plan.clusters.iter().map(|cluster| &cluster.cluster);
        let clusters = self.status.clusters.iter().chain(planned).map(String::as_str);
        PageClusters(
            clusters
                .chain(self.services().flat_map(counts_by_cluster).map(|(cluster, _)| cluster))
                .collect(),
        )
    }

    /// Returns the CSS class, the label and the number of instances of each part of a bar.
    fn parts(&self, split: Split) -> impl Iterator<Item = (&'static str, &'static str, usize)> {
        let classes = ["eks", "other", "ecs", "tools", "unknown"];
        let parts = classes.into_iter().zip(self.status.parties()).zip(split);
        parts.map(|((class, label), count)| (class, label, count))
    }

    /// Returns a bar with the share of each kind of party, and a legend with the numbers.
    fn bar(&self, split: Split) -> String {
        let mut bar = String::new();
        let mut text = String::new();
        for (class, label, count) in self.parts(split).filter(|(.., count)| *count > 0) {
            let _ = write!(bar, "<i class=\"{class}\" style=\"flex-grow:{count}\"></i>");
            let _ = write!(text, "<span><i class=\"{class}\"></i>{label} {count}</span> ");
        }
        format!(
            "<div class=\"bar\" aria-hidden=\"true\">{bar}</div><div class=\"legend\">{text}</div>"
        )
    }

    fn write_overview(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sum = sum(self.services().map(|service| self.status.split(service)));
        let [ours, other_clusters, ecs, ..] = sum;
        let kubernetes = ours + other_clusters;
        let moved = (kubernetes * 100).checked_div(kubernetes + ecs);
        let moved = moved.map_or("–".to_owned(), |share| format!("{share} %"));
        let members =
            self.plan.clusters.iter().filter_map(|cluster| cluster.multi_cluster.as_ref());
        let held_back_in_clustersets: usize =
            members.map(|member| member.held_back().count()).sum();
        let held_back = self.reasons().filter(|(_, line)| line.outcome != Outcome::Remark).count();
        writeln!(f, "<p class=\"about\">{}</p>\n<section class=\"tiles\">", self.now)?;
        for (number, label) in [
            (moved, "of the EKS and ECS instances run on EKS"),
            (self.services().count().to_string(), "Cloud Map services"),
            (kubernetes.to_string(), "instances of EKS"),
            (ecs.to_string(), "instances of ECS"),
            ((held_back + held_back_in_clustersets).to_string(), "held back"),
        ] {
            writeln!(f, "<div class=\"tile\"><b>{number}</b><span>{label}</span></div>")?;
        }
        writeln!(f, "</section>\n<div class=\"whole\">{}</div>", self.bar(sum))
    }

    /// Writes the read errors. They come first, since the numbers below exclude the unread parts.
    fn write_problems(&self, f: &mut Formatter<'_>, clusters: &PageClusters<'_>) -> fmt::Result {
        let registries =
            self.status.registries.iter().filter_map(|registry| registry.error.as_ref());
        let registries = registries.map(|error| html(error));
        let unread_clusters = self.plan.clusters.iter().filter_map(|cluster| {
            Some(format!("{}: {}", clusters.label(&cluster.cluster), html(cluster.error.as_ref()?)))
        });
        let cut = self.status.cut.iter().map(|cut| html(cut));
        let problems: Vec<String> = registries.chain(unread_clusters).chain(cut).collect();
        if !problems.is_empty() {
            writeln!(f, "<h2 class=\"bad\">Not read</h2>")?;
        }
        problems.iter().try_for_each(|problem| writeln!(f, "<p class=\"bad\">{problem}</p>"))
    }

    fn write_services(&self, f: &mut Formatter<'_>, clusters: &PageClusters<'_>) -> fmt::Result {
        writeln!(f, "<h2>Services by platform</h2>")?;
        let mut planned: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for cluster in &self.plan.clusters {
            for service in &cluster.services {
                planned.entry(service.place()).or_default().insert(&cluster.cluster);
            }
        }
        let headings = ["Service", "Instances", "Clusters", "Changes since"];
        let headings = &headings[..if self.before.is_some() { 4 } else { 3 }];
        for state in STATES {
            let mut rows = Vec::new();
            for service in self.services().filter(|service| self.state(service) == state) {
                let place = format!("{}/{}", service.namespace, service.name);
                let mut row_clusters = planned.get(&place).cloned().unwrap_or_default();
                row_clusters.extend(counts_by_cluster(service).map(|(cluster, _)| cluster));
                let counts = counts_by_cluster(service);
                let counts =
                    counts.map(|(cluster, count)| format!("{} {count}", clusters.label(cluster)));
                let instances = match &service.unreadable {
                    Some(problem) => format!("<span class=\"bad\">{}</span>", html(problem)),
                    None => self.bar(self.status.split(service)),
                };
                let place = format!("{} <small>{}</small>", code(&place), html(&service.kind));
                let cells = vec![place, instances, join(counts, ", "), self.since(service)];
                rows.push((clusters.classes(&row_clusters), cells));
            }
            if !rows.is_empty() {
                writeln!(
                    f,
                    "<details class=\"group\" open>\n<summary>{state} <b>{}</b></summary>",
                    rows.len()
                )?;
                write_table(f, headings, &rows)?;
                writeln!(f, "</details>")?;
            }
        }
        Ok(())
    }

    fn state(&self, service: &ServiceStatus) -> &'static str {
        let [ours, other_clusters, ecs, tools, unknown] = self.status.split(service);
        let [not_read, ecs_only, both, eks_only, neither, empty] = STATES;
        match (ours + other_clusters, ecs) {
            _ if service.unreadable.is_some() => not_read,
            (0, 0) if tools + unknown == 0 => empty,
            (0, 0) => neither,
            (0, _) => ecs_only,
            (_, 0) => eks_only,
            (_, _) => both,
        }
    }

    /// Returns the changes of a service since the earlier status. Empty if there is no change or no earlier status.
    fn since(&self, service: &ServiceStatus) -> String {
        let Some(before) = self.before else { return String::new() };
        let mut services = before.registries.iter().flat_map(|registry| &registry.services);
        let is_same = |other: &&ServiceStatus| {
            (&other.namespace, &other.name) == (&service.namespace, &service.name)
        };
        let Some(then) = services.find(is_same) else { return "new".to_owned() };
        let parts = self.parts(self.status.split(service)).zip(before.split(then));
        let changes = parts.filter_map(|((_, label, now), then)| match now.cmp(&then) {
            Ordering::Equal => None,
            Ordering::Greater => Some(format!("+{} {label}", now - then)),
            Ordering::Less => Some(format!("−{} {label}", then - now)),
        });
        join(changes, ", ")
    }

    /// Returns the lines with a reason, about held-back requests and remarks, each with its cluster.
    fn reasons(&self) -> impl Iterator<Item = (&str, &Line)> {
        self.plan.clusters.iter().flat_map(|cluster| {
            let lines = cluster.all_lines().filter(|line| line.has_reason());
            lines.map(|line| (cluster.cluster.as_str(), line))
        })
    }

    fn write_held_back(&self, f: &mut Formatter<'_>, clusters: &PageClusters<'_>) -> fmt::Result {
        writeln!(f, "<section class=\"group\">\n<h2>Conflicts and other held-back requests</h2>")?;
        let rows = self.reasons().map(|(cluster, line)| {
            let service = line.service.as_ref().map(ToString::to_string).unwrap_or_default();
            let cells =
                vec![code(&service), clusters.label(cluster), html(&line.code), html(&line.text)];
            (clusters.classes(&[cluster].into()), cells)
        });
        let rows: Vec<HtmlRow> = rows.collect();
        if rows.is_empty() {
            writeln!(f, "<p class=\"good\">None.</p>")?;
        } else {
            write_table(f, &["Kubernetes Service", "Cluster", "Reason", "Details"], &rows)?;
        }
        writeln!(f, "</section>")
    }

    fn write_changes(&self, f: &mut Formatter<'_>, clusters: &PageClusters<'_>) -> fmt::Result {
        writeln!(f, "<section class=\"group\">\n<h2>Changes of the next sync</h2>")?;
        self.plan.cut.iter().try_for_each(|cut| writeln!(f, "<p>{}</p>", html(cut)))?;
        writeln!(f, "<p>{}</p>", html(&self.plan.summary()))?;
        let mut rows = Vec::new();
        for cluster in &self.plan.clusters {
            for service in &cluster.services {
                for line in service.changes() {
                    let class = match line.sign {
                        '+' => "good",
                        '-' => "bad",
                        _ => "soft",
                    };
                    let change = html(&format!("{} {}", line.sign, line.code));
                    let change = format!("<span class=\"{class}\">{change}</span>");
                    let instance = line.object.as_deref().map(code).unwrap_or_default();
                    let place = code(&service.place());
                    let detail = html(&line.text);
                    let cells =
                        vec![place, clusters.label(&cluster.cluster), change, instance, detail];
                    rows.push((clusters.classes(&[cluster.cluster.as_str()].into()), cells));
                }
            }
        }
        if !rows.is_empty() {
            write_table(f, &["Service", "Cluster", "Change", "Instance", "Details"], &rows)?;
        }
        writeln!(f, "</section>")
    }

    /// Writes for each member of a clusterset the lines of the plan's table about its exports, imports and conflicts.
    fn write_clustersets(&self, f: &mut Formatter<'_>, clusters: &PageClusters<'_>) -> fmt::Result {
        let members = self.plan.clusters.iter();
        let members: Vec<_> = members
            .filter_map(|cluster| Some((cluster, cluster.multi_cluster.as_ref()?)))
            .collect();
        if members.is_empty() {
            return Ok(());
        }
        writeln!(f, "<section class=\"group\">\n<h2>Services across clusters</h2>")?;
        for (cluster, member) in members {
            let lines = member.to_string();
            let (about, changes): (Vec<&str>, Vec<&str>) =
                lines.lines().map(str::trim).partition(|line| line.starts_with("clusterset "));
            let class = clusters.classes(&[cluster.cluster.as_str()].into());
            let label = clusters.label(&cluster.cluster);
            let about = about.concat();
            writeln!(
                f,
                "<div class=\"row lines {class}\">\n<h3>{label}</h3>\n<p>{}</p>",
                html(&about)
            )?;
            if changes.is_empty() {
                writeln!(f, "<p class=\"good\">Nothing to do.</p>")?;
            }
            for line in changes {
                let class = if line.contains("! ") { " class=\"bad\"" } else { "" };
                writeln!(f, "<code{class}>{}</code>", html(line))?;
            }
            writeln!(f, "</div>")?;
        }
        writeln!(f, "</section>")
    }
}

/// Returns the number of instances of a service for each cluster whose ARN is in their marks.
fn counts_by_cluster(service: &ServiceStatus) -> impl Iterator<Item = (&str, usize)> {
    let shares = service.instances.iter().filter(|share| share.by == ShareOf::Cluster);
    shares.filter_map(|share| Some((share.name.as_deref()?, share.count)))
}
