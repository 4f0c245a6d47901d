//! What Linux says of a process under measurement.

/// What a process has used so far.
#[derive(Clone, Copy, Default)]
pub struct Used {
    /// In seconds.
    pub processor_time: f64,
    /// The most memory that it has ever had resident (VmHWM), in megabytes.
    pub peak_memory: f64,
}

impl Used {
    /// `None` where the process has ended.
    pub fn by(process: Option<u32>) -> Option<Self> {
        let process = process?;
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).ok();
        let (status, stat) = (read("status")?, read("stat")?);
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: f64 = peak.trim().strip_suffix("kB")?.trim().parse().ok()?;
        // After the name, which may hold anything and ends with the last parenthesis: utime and stime are the
        // 12th and 13th field, in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split(' ').collect();
        let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
        let processor_time = (ticks(12)? + ticks(13)?) / 100.0;
        Some(Self { processor_time, peak_memory: kib * 1024.0 / 1e6 })
    }
}
