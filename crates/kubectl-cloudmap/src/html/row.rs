//! One Cloud Map service on the page: its instances by platform, the progress of its move, and the changes since an
//! earlier status.

use std::fmt::{self, Display, Formatter};

use super::page::Text;
use cloud_map_sync::actions::status::{ServiceStatus, Split, Status};

/// The CSS classes of a bar's parts with their labels, in the order of the columns.
pub fn parts(status: &Status) -> [(&'static str, &'static str); 5] {
    [
        ("eks", status.clusters_heading()),
        ("other", "other clusters"),
        ("ecs", "ECS"),
        ("tools", "other tools"),
        ("unknown", "unknown"),
    ]
}

/// A bar with the share of each kind of party.
pub struct Bar<'a> {
    pub status: &'a Status,
    pub split: Split,
    /// A further CSS class, with a leading space.
    pub class: &'a str,
}

impl Display for Bar<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { status, split, class } = self;
        let total: usize = split.counts().iter().sum();
        write!(f, "<div class=\"bar{class}\">")?;
        for ((part, label), count) in parts(status).into_iter().zip(split.counts()) {
            if count > 0 {
                // Tenths of per cent: no part of a bar is so small that the rounding shows.
                let share = count * 1000 / total;
                let (whole, tenth) = (share / 10, share % 10);
                write!(
                    f,
                    "<i class=\"{part}\" style=\"width:{whole}.{tenth}%\" title=\"{count} {label}\"></i>"
                )?;
            }
        }
        f.write_str("</div>")
    }
}

/// The progress of a service's move from ECS.
pub fn state(split: Split) -> &'static str {
    match (split.ours + split.other_clusters, split.ecs) {
        (0, 0) if split.other_tools + split.unknown == 0 => "empty",
        (0, 0) => "neither EKS nor ECS",
        (0, _) => "ECS only",
        (_, 0) => "EKS only",
        (_, _) => "ECS and EKS",
    }
}

/// A service, with its earlier status.
pub struct Row<'a> {
    pub status: &'a Status,
    pub service: &'a ServiceStatus,
    pub before: Option<&'a Status>,
}

impl Row<'_> {
    /// The changes since the earlier status; empty if there are none.
    pub fn since(&self) -> String {
        let Some(before) = self.before else { return String::new() };
        let services = before.registries.iter().flat_map(|registry| &registry.services);
        let mut same = services.filter(|it| {
            (&it.namespace, &it.name) == (&self.service.namespace, &self.service.name)
        });
        let Some(service) = same.next() else { return "new".to_owned() };
        let (then, now) =
            (before.split(service).counts(), self.status.split(self.service).counts());
        let parts = parts(self.status).into_iter().zip(then.into_iter().zip(now));
        let changes = parts.filter_map(|((_, label), (then, now))| match now.cmp(&then) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(format!("+{} {label}", now - then)),
            std::cmp::Ordering::Less => Some(format!("−{} {label}", then - now)),
        });
        changes.collect::<Vec<_>>().join(", ")
    }
}

impl Display for Row<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let split = self.status.split(self.service);
        let [place, kind, numbers @ ..] = self.status.row(self.service);
        let (place, kind) = (Text(&place), Text(&kind));
        write!(f, "<tr><td><code>{place}</code></td><td>{kind}</td>")?;
        match &self.service.unreadable {
            Some(problem) => write!(f, "<td colspan=\"2\" class=\"bad\">{}</td>", Text(problem))?,
            None => write!(
                f,
                "<td class=\"state\">{}</td><td class=\"bars\">{}</td>",
                state(split),
                Bar { status: self.status, split, class: "" }
            )?,
        }
        numbers.iter().try_for_each(|number| write!(f, "<td class=\"number\">{number}</td>"))?;
        if self.before.is_some() {
            write!(f, "<td class=\"since\">{}</td>", Text(&self.since()))?;
        }
        writeln!(f, "</tr>")
    }
}
