//! The machine as this process may use it: the operating system's files are read; cores, memory and names come out,
//! absent where the system does not say.

use std::collections::BTreeSet;
use std::path::Path;

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Machine {
    /// Operating system and architecture, such as `linux x86_64`.
    pub(crate) os: String,
    pub(crate) cpu: Option<String>,
    /// Cores that this process may run on: the default number of threads.
    pub(crate) cores: usize,
    /// Threads that this process may run at once.
    pub(crate) logical_cpus: usize,
    pub(crate) page_bytes: Option<u64>,
    pub(crate) memory: Memory,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Memory {
    pub(crate) total_bytes: Option<u64>,
    /// What the system could give without swapping.
    pub(crate) available_bytes: Option<u64>,
    /// The smallest limit of the control groups that this process is in.
    pub(crate) limit_bytes: Option<u64>,
    /// What that limit still leaves; file caches, which the system drops at need, are not counted.
    pub(crate) limit_left_bytes: Option<u64>,
}

impl Memory {
    pub(crate) fn read() -> Memory {
        let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let group =
            group_limit(&std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default(), Path::new("/sys/fs/cgroup"));
        Memory {
            total_bytes: field_kib(&info, "MemTotal:"),
            available_bytes: field_kib(&info, "MemAvailable:"),
            limit_bytes: group.map(|(limit, _)| limit),
            limit_left_bytes: group.map(|(_, left)| left),
        }
    }

    /// What this process can still take.
    pub(crate) fn usable_bytes(&self) -> Option<u64> {
        self.available_bytes.into_iter().chain(self.limit_left_bytes).min()
    }
}

impl Machine {
    pub(crate) fn read() -> Machine {
        Machine {
            os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: cpu_name(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: cores(),
            logical_cpus: logical_cpus(),
            page_bytes: std::fs::read("/proc/self/auxv").ok().and_then(|auxv| page_bytes(&auxv)),
            memory: Memory::read(),
        }
    }
}

/// Memory of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Resident {
    /// Held by it alone, now.
    pub(crate) own_bytes: Option<u64>,
    /// The most that was resident at once, pages of mapped files included, which the system can drop at any time.
    pub(crate) peak_with_files_bytes: Option<u64>,
}

impl Resident {
    pub(crate) fn read() -> Resident {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Resident { own_bytes: field_kib(&status, "RssAnon:"), peak_with_files_bytes: field_kib(&status, "VmHWM:") }
    }
}

/// CPUs that this process may use at once: affinity and control groups are respected.
fn logical_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Cores that this process may use: two CPUs of one core share its arithmetic units.
pub(crate) fn cores() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(parse_list);
    let physical = allowed.and_then(|cpus| physical_cores(&cpus, Path::new("/sys/devices/system/cpu")));
    physical.unwrap_or(usize::MAX).min(logical_cpus()).max(1)
}

/// The different cores of `cpus`; `None` when one of them does not say where it lies.
fn physical_cores(cpus: &[usize], root: &Path) -> Option<usize> {
    let mut cores = BTreeSet::new();
    for cpu in cpus {
        let siblings = root.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        cores.insert(std::fs::read_to_string(siblings).ok()?.trim().to_owned());
    }
    (!cores.is_empty()).then_some(cores.len())
}

/// `0-3,8` to `[0, 1, 2, 3, 8]`.
fn parse_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?.min(1 << 16))
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

fn field_kib(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn cpu_name(info: &str) -> Option<String> {
    let value = |key: &str| {
        let line = info.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
        Some(line.split_once(':')?.1.trim().to_owned()).filter(|name| !name.is_empty())
    };
    value("model name").or_else(|| value("Model")).or_else(|| value("Hardware"))
}

/// The system's page size out of the auxiliary vector: pairs of native words, `AT_PAGESZ` is 6.
fn page_bytes(auxv: &[u8]) -> Option<u64> {
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).ok();
    let pair = auxv.chunks_exact(2 * WORD).find(|pair| word(&pair[..WORD]) == Some(6))?;
    word(&pair[WORD..]).map(|size| size as u64)
}

/// `(limit, left)` of the tightest control group above this process.
fn group_limit(membership: &str, root: &Path) -> Option<(u64, u64)> {
    let number = |path: std::path::PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let unified = |group: &Path| {
        let limit = number(group.join("memory.max"))?;
        let used = number(group.join("memory.current"))?;
        let files = file_caches(&std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default());
        Some((limit, limit.saturating_sub(used.saturating_sub(files))))
    };
    let mut found: Option<(u64, u64)> = None;
    for path in membership.lines().filter_map(|line| line.strip_prefix("0::/")) {
        let group = root.join(path);
        let above = group.ancestors().take_while(|group| group.starts_with(root));
        // In a container the path may be that of the host; the root of what is mounted then speaks for it.
        let here = above.filter_map(unified).min_by_key(|(_, left)| *left);
        found = found.into_iter().chain(here).min_by_key(|(_, left)| *left);
    }
    if found.is_some() {
        return found;
    }
    let old = root.join("memory");
    // "No limit" is a number near the largest here.
    let limit = number(old.join("memory.limit_in_bytes")).filter(|limit| *limit < 1 << 60)?;
    let used = number(old.join("memory.usage_in_bytes"))?;
    let files = file_caches(&std::fs::read_to_string(old.join("memory.stat")).unwrap_or_default());
    Some((limit, limit.saturating_sub(used.saturating_sub(files))))
}

fn file_caches(stat: &str) -> u64 {
    let value = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    ["inactive_file", "active_file"].into_iter().filter_map(value).fold(0u64, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own, with these files in it.
    fn directory(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("kinglet-machine-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("below root")).expect("writable");
            std::fs::write(path, text).expect("writable");
        }
        root
    }

    #[test]
    fn lists_of_cpus_are_ranges_and_numbers() {
        for (text, expected) in [("0-3,8\n", vec![0, 1, 2, 3, 8]), ("\t5", vec![5]), ("", vec![]), ("x,2-1", vec![])] {
            assert_eq!(parse_list(text), expected, "{text:?}");
        }
    }

    #[test]
    fn two_cpus_of_one_core_are_one() {
        let file = |cpu: usize| format!("cpu{cpu}/topology/thread_siblings_list");
        let files: Vec<(String, &str)> = vec![(file(0), "0,2\n"), (file(1), "1,3\n"), (file(2), "0,2\n")];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let root = directory("cores", &files);
        assert_eq!(physical_cores(&[0, 1, 2], &root), Some(2));
        assert_eq!(physical_cores(&[0, 7], &root), None, "cpu 7 says nothing");
        assert_eq!(physical_cores(&[], &root), None);
        std::fs::remove_dir_all(root).expect("ours");
    }

    #[test]
    fn the_tightest_group_counts_and_file_caches_do_not() {
        let root = directory(
            "groups",
            &[
                ("a/memory.max", "1000\n"),
                ("a/memory.current", "700\n"),
                ("a/memory.stat", "anon 600\ninactive_file 80\nactive_file 20\n"),
                ("a/b/memory.max", "max\n"),
                ("a/b/memory.current", "10\n"),
            ],
        );
        assert_eq!(group_limit("0::/a/b\n", &root), Some((1000, 400)));
        assert_eq!(group_limit("0::/elsewhere\n", &root), None);
        assert_eq!(group_limit("", &root), None);
        std::fs::remove_dir_all(root).expect("ours");
    }

    #[test]
    fn the_first_kind_of_group_counts_too_unless_it_is_unlimited() {
        let set = |limit| {
            directory(
                "old",
                &[
                    ("memory/memory.limit_in_bytes", limit),
                    ("memory/memory.usage_in_bytes", "30"),
                    ("memory/memory.stat", "active_file 10"),
                ],
            )
        };
        let root = set("100");
        assert_eq!(group_limit("4:memory:/x", &root), Some((100, 80)));
        assert_eq!(group_limit("", &set("9223372036854771712")), None);
        std::fs::remove_dir_all(root).expect("ours");
    }

    #[test]
    fn fields_are_read_with_their_unit_and_odd_ones_are_absent() {
        let info = "MemTotal:        100 kB\nMemAvailable: 7 kB\nOdd: 3\n";
        assert_eq!(field_kib(info, "MemTotal:"), Some(102_400));
        assert_eq!(field_kib(info, "Odd:"), None);
        assert_eq!(field_kib(info, "None:"), None);
        assert_eq!(cpu_name("processor\t: 0\nmodel name\t: Fast CPU\n").as_deref(), Some("Fast CPU"));
        assert_eq!(cpu_name("processor\t: 0\nModel\t\t: Pi 5\n").as_deref(), Some("Pi 5"));
        assert_eq!(cpu_name(""), None);
    }

    #[test]
    fn the_page_size_is_the_sixth_kind_of_entry() {
        let words = |words: &[usize]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        assert_eq!(page_bytes(&words(&[3, 1, 6, 16384, 0, 0])), Some(16384));
        assert_eq!(page_bytes(&words(&[3, 6])), None);
        assert_eq!(page_bytes(&[1, 2, 3]), None);
    }

    #[test]
    fn the_smaller_of_memory_and_limit_is_usable() {
        let memory =
            |available_bytes, limit_left_bytes| Memory { available_bytes, limit_left_bytes, ..Memory::default() };
        assert_eq!(memory(Some(5), Some(3)).usable_bytes(), Some(3));
        assert_eq!(memory(Some(5), None).usable_bytes(), Some(5));
        assert_eq!(memory(None, None).usable_bytes(), None);
    }
}
