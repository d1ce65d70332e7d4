//! `holdup-lab vm`: boots stock kernels in QEMU, one after the other, and asks holdup in each.
//!
//! Owns booting and the matrix that it prints. What is booted comes from lab/vm/images, the faults are made
//! in the guest by lab/vm/checks, and what each must be answered is in checks.rs. The guest judges nothing and
//! this side sees nothing of the guest but the tar that it sends home on a disk of its own.
//! Rejected: a library for virtual machines (it is one command line), KVM (the machines that build this have
//! none: TCG is five times slower, so checks assert names and ratios, never latencies).
//!
//! Edit together: lab/vm/*, docs/lab.md, the `lab-vm` list of xtask/setup.

mod checks;
mod document;

use crate::{say, warn};
use anyhow::{Context, Result, bail};
use checks::{Boot, CHECKS, Check, Seen};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What to boot and to ask.
pub struct Plan {
    /// Folder of kernels, disks and results; a cache.
    pub folder: PathBuf,
    /// holdup, linked statically.
    pub holdup: PathBuf,
    /// The loads (`holdup-lab-load`), linked statically.
    pub load: PathBuf,
    /// Only these kernels, by the names of lab/vm/images; all if empty.
    pub kernels: Vec<String>,
    /// Only these checks; all if empty.
    pub checks: Vec<String>,
    /// Print the matrix as JSON.
    pub json: bool,
    /// Write the matrix as a page; kernels that are not wanted are told from when they were last asked.
    pub page: Option<PathBuf>,
}

struct Kernel {
    name: String,
    version: String,
    /// What is booted.
    images: PathBuf,
    /// Job, console and results.
    folder: PathBuf,
    boot: Boot,
}

/// The kernel that is booted in other ways as well: the newest that Debian calls stable.
const BOOTED_OTHERWISE: &str = "6.12";

/// One line of the matrix.
#[derive(Serialize)]
struct Cell {
    kernel: String,
    version: String,
    /// The day, by the guest's clock.
    asked: String,
    /// The boot that answered: each before it died on the way.
    boot: usize,
    check: String,
    #[serde(flatten)]
    seen: Seen,
}

/// Emulators lose guests now and then: QEMU 7.2 keeps its translation of code that the other CPU patched meanwhile (a
/// tracepoint that is attached, by whomever), and runs an int3 that memory no longer has: the guest dies of it, or
/// stands there for good. Such a guest is booted again, with one thread for both of its CPUs: slower, but nothing is
/// patched behind its back. Whether it was that, its console tells, which is kept: where both CPUs stood.
const BOOTS_MAX: usize = 3;
/// A guest says a word after each check, which is given up after 150 s: one that is silent for longer stands. What the
/// kernel says in between is no word of the guest: a CPU that stands is reported again and again by the other.
const WORD: &str = "vm: ";
const SILENT: Duration = Duration::from_secs(240);
/// Seconds after which a guest ends even if nobody is left to give it up.
const GUEST_SECONDS: usize = 1800;
/// Bytes for what a guest sends home.
const RESULTS_BYTES: u64 = 64 << 20;
/// File of the results: which boot it was.
const BOOT: &str = "boot";

/// Boots, asks and prints. An error if any answer was wrong or a guest did not come back.
pub fn run(home: &Path, plan: &Plan) -> Result<()> {
    if let Some(unknown) =
        plan.checks.iter().find(|name| CHECKS.iter().all(|check| check.name != **name))
    {
        bail!("there is no check {unknown}");
    }
    let checks: Vec<&Check> = CHECKS
        .iter()
        .filter(|check| plan.checks.is_empty() || plan.checks.iter().any(|only| only == check.name))
        .collect();
    if plan.page.is_some() && !plan.checks.is_empty() {
        bail!("the page is of all checks: --write-docs goes without --check");
    }
    let mut matrix = Vec::new();
    for kernel in kernels(home, &plan.folder)? {
        let checks: Vec<&Check> =
            checks.iter().copied().filter(|check| check.boot == kernel.boot).collect();
        let wanted = plan.kernels.is_empty() || plan.kernels.contains(&kernel.name);
        let wanted = wanted && !checks.is_empty();
        let results = match (wanted, &plan.page) {
            (true, _) => ask(home, plan, &kernel, &checks)?,
            (false, Some(_)) => answers_before(&kernel, &checks)?,
            (false, None) => continue,
        };
        let reported = |name| std::fs::read_to_string(results.join(name)).unwrap_or_default();
        let (asked, boot) = (reported("asked"), reported(BOOT).trim().parse().unwrap_or(1));
        for check in &checks {
            let cell = Cell {
                kernel: kernel.name.clone(),
                version: kernel.version.clone(),
                asked: asked.trim().to_string(),
                boot,
                check: check.name.to_string(),
                seen: checks::judge(check, &results),
            };
            if !plan.json {
                say(&line(&cell));
            }
            matrix.push(cell);
        }
    }
    if plan.json {
        say(&serde_json::to_string_pretty(&matrix)?);
    }
    let wrong = matrix.iter().filter(|cell| cell.seen.verdict == "wrong").count();
    if matrix.is_empty() {
        bail!("nothing was booted");
    }
    if let Some(path) = &plan.page {
        std::fs::write(path, document::page(&matrix))
            .with_context(|| format!("write {}", path.display()))?;
    }
    if !plan.json {
        say(&count(&matrix));
    }
    if wrong > 0 {
        bail!("{wrong} of {} answers are wrong", matrix.len());
    }
    Ok(())
}

/// Boots a kernel until it has answered to the end, or too often. Keeps what the console of a dead guest showed.
fn ask(home: &Path, plan: &Plan, kernel: &Kernel, checks: &[&Check]) -> Result<PathBuf> {
    let console = |number: usize| kernel.folder.join(format!("console.{number}"));
    (1..BOOTS_MAX).for_each(|number| drop(std::fs::remove_file(console(number))));
    let mut results = boot(home, plan, kernel, checks, "multi")?;
    let mut number = 1;
    while number < BOOTS_MAX && !results.join("done").exists() {
        let log = console(number);
        std::fs::rename(kernel.folder.join("console"), &log).context("keep the console")?;
        let reported = std::fs::read(&log).unwrap_or_default();
        let reported = String::from_utf8_lossy(&reported);
        let (version, why) = (&kernel.version, death(&reported));
        warn(&format!(
            "{version} died in boot {number} of {BOOTS_MAX}: {why}; see {}",
            log.display()
        ));
        results = boot(home, plan, kernel, checks, "single")?;
        number += 1;
    }
    std::fs::write(results.join(BOOT), number.to_string())?;
    Ok(results)
}

/// What the kernel said first about its death.
fn death(console: &str) -> &str {
    let signs = ["soft lockup", "detected stalls", "BUG: ", "Oops: ", "int3: "];
    let reported = console.lines().find(|line| signs.iter().any(|sign| line.contains(sign)));
    reported.map_or("it fell silent", str::trim)
}

/// What a kernel sent home when it was last asked: for a page of all, if it was asked all.
fn answers_before(kernel: &Kernel, checks: &[&Check]) -> Result<PathBuf> {
    let order = std::fs::read_to_string(kernel.folder.join("job/order")).unwrap_or_default();
    let results = kernel.folder.join("results");
    let asked: Vec<&str> = order.split(' ').collect();
    if !results.join("done").exists() || checks.iter().any(|check| !asked.contains(&check.name)) {
        bail!("{} was not asked all checks yet: run it with --kernel {0}", kernel.name);
    }
    Ok(results)
}

/// How many of each verdict.
fn count(matrix: &[Cell]) -> String {
    let verdicts = ["ok", "lacks", "refused", "wrong"].map(|verdict| {
        let cells = matrix.iter().filter(|cell| cell.seen.verdict == verdict).count();
        format!("{cells} {verdict}")
    });
    verdicts
        .iter()
        .filter(|reported| !reported.starts_with("0 "))
        .cloned()
        .collect::<Vec<_>>()
        .join(", ")
}

fn line(cell: &Cell) -> String {
    let Cell { version, check, seen, .. } = cell;
    let effect = if seen.effect.is_empty() { String::new() } else { format!(" [{}]", seen.effect) };
    format!("{version:<24} {check:<12} {:<7} {}{effect}", seen.verdict, seen.said)
}

/// Has lab/vm/images make everything ready, and reads what it tells.
fn kernels(home: &Path, folder: &Path) -> Result<Vec<Kernel>> {
    let output = Command::new(home.join("vm/images"))
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()
        .context("run lab/vm/images")?;
    if !output.status.success() {
        bail!("lab/vm/images failed");
    }
    let mut kernels: Vec<Kernel> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t').map(str::to_string);
            let (name, version) = (fields.next()?, fields.next()?);
            let folder = PathBuf::from(fields.next()?);
            Some(Kernel { name, version, images: folder.clone(), folder, boot: Boot::Plain })
        })
        .collect();
    let other = kernels.iter().find(|kernel| kernel.name == BOOTED_OTHERWISE).map(|plain| Kernel {
        name: plain.name.clone(),
        version: format!("{} {}", plain.version, Boot::Isolated.parameters()),
        images: plain.images.clone(),
        folder: plain.folder.join("isolated"),
        boot: Boot::Isolated,
    });
    kernels.extend(other);
    kernels.sort_by_key(|kernel| kernel.name != "5.10"); // the hardest first
    Ok(kernels)
}

/// Boots one kernel with the job on a disk; returns the folder of what it sent home.
fn boot(
    home: &Path,
    plan: &Plan,
    kernel: &Kernel,
    checks: &[&Check],
    threads: &str,
) -> Result<PathBuf> {
    let (job, results) = (kernel.folder.join("job"), kernel.folder.join("results"));
    for folder in [&job, &results] {
        std::fs::remove_dir_all(folder).ok();
        std::fs::create_dir_all(folder)?;
    }
    std::fs::create_dir_all(job.join("checks"))?;
    let order: Vec<&str> = checks.iter().map(|check| check.name).collect();
    std::fs::write(job.join("order"), order.join(" "))?;
    for name in &order {
        let file = format!("checks/{name}.sh");
        std::fs::copy(home.join("vm").join(&file), job.join(&file)).context(file)?;
    }
    for (from, name) in [
        (&home.join("vm/guest"), "guest"),
        (&plan.holdup, "holdup"),
        (&plan.load, "holdup-lab-load"),
    ] {
        std::fs::copy(from, job.join(name)).with_context(|| format!("copy {}", from.display()))?;
    }
    let (job_disk, results_disk) =
        (kernel.folder.join("job.img"), kernel.folder.join("results.img"));
    tar(&["-c", "-f"], &job_disk, &job)?;
    // A disk is a whole number of sectors; a tar ends where its zeroes begin.
    let bytes = std::fs::metadata(&job_disk)?.len().next_multiple_of(512);
    std::fs::OpenOptions::new().write(true).open(&job_disk)?.set_len(bytes)?;
    std::fs::File::create(&results_disk)?.set_len(RESULTS_BYTES)?;
    let guest = emulator(plan, kernel, &job_disk, &results_disk, threads).spawn();
    attend(guest.context("start QEMU")?, &kernel.folder.join("console"), SILENT)?;
    // Nothing came home: every check says so.
    if let Err(error) = tar(&["-x", "-f"], &results_disk, &results) {
        warn(&format!(
            "{}: {error:#}; see {}",
            kernel.version,
            kernel.folder.join("console").display()
        ));
    }
    Ok(results)
}

/// Waits for the guest to power off, or gives it up once it has been silent for longer.
fn attend(mut guest: Child, console: &Path, silent: Duration) -> Result<()> {
    let (mut words, mut spoken) = (0, Instant::now());
    while guest.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(500));
        let reported = std::fs::read(console).unwrap_or_default();
        let now = String::from_utf8_lossy(&reported).matches(WORD).count();
        if now != words {
            (words, spoken) = (now, Instant::now());
        }
        if spoken.elapsed() > silent {
            // To `timeout`, which passes it on.
            Command::new("kill").arg(guest.id().to_string()).status().context("end QEMU")?;
            guest.wait()?;
        }
    }
    Ok(())
}

fn tar(flags: &[&str], archive: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command.args(flags).arg(archive).arg("-C").arg(folder);
    if flags.contains(&"-c") {
        command.arg(".");
    }
    let status = command.status().context("start tar")?;
    if !status.success() {
        bail!("tar {} failed", archive.display());
    }
    Ok(())
}

fn emulator(plan: &Plan, kernel: &Kernel, job: &Path, results: &Path, threads: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10", "timeout", &GUEST_SECONDS.to_string(), "qemu-system-x86_64"]);
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-monitor",
        "none",
    ]);
    command.arg("-serial").arg(format!("file:{}", kernel.folder.join("console").display()));
    let accelerator = format!("tcg,thread={threads},tb-size=512");
    command.args(["-machine", "q35", "-accel", &accelerator, "-cpu", "max"]);
    command.args(["-smp", "2", "-m", "1536", "-nic", "none", "-device", "virtio-rng-pci"]);
    command.args(kernel.boot.machine());
    command.arg("-kernel").arg(kernel.images.join("vmlinuz"));
    command.arg("-initrd").arg(kernel.images.join("initramfs"));
    // Warnings are reported: a CPU that stands still is asked where, beside the one that notices.
    let append = "console=ttyS0 loglevel=5 sysctl.kernel.softlockup_all_cpu_backtrace=1 panic=-1 mitigations=off \
                  nokaslr tsc=unstable psi=1";
    command.arg("-append").arg(format!("{append} {}", kernel.boot.parameters()));
    let disks = [
        (plan.folder.join("root.img"), "on"),
        (kernel.images.join("modules.img"), "on"),
        (job.to_path_buf(), "on"),
        (results.to_path_buf(), "off"),
    ];
    for (number, (file, read_only)) in disks.iter().enumerate() {
        let drive =
            format!("file={},if=none,id=d{number},format=raw,readonly={read_only}", file.display());
        command.arg("-drive").arg(drive);
        command.arg("-device").arg(format!("virtio-blk-pci,drive=d{number}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_only_its_kernel_speaks_for_is_given_up() {
        let console = std::env::temp_dir().join(format!("vm-console-{}", std::process::id()));
        // Its words end long before it does; its kernel's go on.
        let script = r#"for n in 1 2 3; do echo "vm: $n" >>"$0"; sleep 0.6; done
            while sleep 0.1; do echo "[ 9.1] watchdog: BUG: soft lockup - CPU#1 stuck" >>"$0"; done"#;
        let begun = Instant::now();
        let guest = Command::new("sh").arg("-c").arg(script).arg(&console).spawn().unwrap();
        attend(guest, &console, Duration::from_millis(1500)).unwrap();
        let reported = std::fs::read_to_string(&console).unwrap();
        std::fs::remove_file(&console).unwrap();
        assert_eq!(reported.matches(WORD).count(), 3, "not given up while it spoke: {reported}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert_eq!(death(&reported), "[ 9.1] watchdog: BUG: soft lockup - CPU#1 stuck");
        assert_eq!(death("vm: doctor 0 in 2 s\n"), "it fell silent");
    }
}
