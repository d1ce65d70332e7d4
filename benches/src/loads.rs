//! The loads: each a command that works for some seconds and prints one figure, from which the time for
//! one unit of its work follows; and the same work in slices (slices.rs).
//!
//! What a load needs (a server, a loop device, a set of C files) is made once and stands while all tools
//! look at it, so that a tool meets the same thing as nothing did. The amount of work is fixed by a short
//! trial when the load is made; loads that can only run for a time say how much they did in it. All
//! traffic is on loopback, all files on a tmpfs. Client and server have a CPU each where there are two: where the
//! scheduler puts them would else differ from run to run by more than any tool costs.

use crate::child::{Ctx, Ended, run, words};
use crate::slices::{self, Slices};
use anyhow::{Context, Result, bail};
use holdup_lab::undo::{Guard, Guards, Undo};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// A load that can be run again and again.
pub struct Load {
    /// Its name in tables.
    pub name: &'static str,
    /// The command.
    pub words: Vec<String>,
    /// The same work in slices.
    pub slices: Slices,
    figure: fn(&str) -> Option<f64>,
    _guards: Guards,
    running: Vec<crate::child::Running>,
}

/// How a load comes to be.
pub struct Kind {
    /// Its name in tables and for `--only`.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    make: fn(&Ctx) -> Result<Load>,
}

/// All loads, in the order of the table.
pub const KINDS: &[Kind] = &[
    Kind { name: "pingpong", what: "perf bench sched pipe, pinned to one CPU", make: pingpong },
    Kind { name: "messaging", what: "perf bench sched messaging, saturated", make: messaging },
    Kind {
        name: "fio",
        what: "4 KiB random reads, loop device over tmpfs, fio and the kernel's worker on a CPU each",
        make: fio,
    },
    Kind {
        name: "redis",
        what: "redis-benchmark SET and GET over loopback, server and client on a CPU each",
        make: redis,
    },
    Kind {
        name: "nginx",
        what: "wrk against nginx, 1 KiB file, loopback, server and client on a CPU each",
        make: nginx,
    },
    Kind { name: "compile", what: "make -j2 of generated C files", make: compile },
];

impl Kind {
    /// Makes what it needs.
    pub fn make(&self, ctx: &Ctx) -> Result<Load> {
        (self.make)(ctx)
    }
}

impl Load {
    /// Runs it once; seconds for one unit of work, whatever that is.
    pub fn run(&self, ctx: &Ctx) -> Result<f64> {
        self.run_words(ctx, &self.words)
    }

    /// The same for a command that prints as this one does.
    pub fn run_words(&self, ctx: &Ctx, words: &[String]) -> Result<f64> {
        let ended = ctx.complete(words, Duration::from_secs(90))?;
        self.figure_of(&ended)
    }

    /// Seconds for one unit of work, of a run under something else.
    pub fn figure_of(&self, ended: &Ended) -> Result<f64> {
        let figure = (self.figure)(&ended.out);
        match figure.filter(|figure| figure.is_finite() && *figure > 0.0) {
            Some(figure) => Ok(figure),
            None => bail!(
                "{} gave no figure: {}",
                self.name,
                crate::child::first_words(&format!("{} {}", ended.err, ended.out))
            ),
        }
    }

    /// Ends its servers; also done when it is dropped, but then nobody hears of trouble.
    pub fn close(self) -> Result<()> {
        for server in self.running {
            drop(server);
        }
        Ok(())
    }
}

fn load(
    name: &'static str,
    words: Vec<String>,
    slices: Slices,
    figure: fn(&str) -> Option<f64>,
) -> Load {
    Load { name, words, slices, figure, _guards: Guards::new(), running: Vec::new() }
}

/// A load that is only run to see how long it takes.
fn trial(
    ctx: &Ctx,
    name: &'static str,
    words: Vec<String>,
    figure: fn(&str) -> Option<f64>,
) -> Result<f64> {
    load(name, words, Slices::none(), figure).run(ctx)
}

/// A command that stays on the first or the second CPU, where there are two. A load that has but one place has the
/// second, because the first takes most interrupts.
fn placed(second: bool, words: Vec<String>) -> Vec<String> {
    let many = std::thread::available_parallelism().map_or(1, usize::from) > 1;
    let cpu = if second { "1" } else { "0" };
    match many {
        true => ["taskset", "-c", cpu].into_iter().map(String::from).chain(words).collect(),
        false => words,
    }
}

/// Scales a count that took `trial` seconds to the wished length of a load.
fn scaled(ctx: &Ctx, count: f64, trial: f64) -> u64 {
    (count * ctx.load_seconds / trial.max(1e-3)).round().max(1.0) as u64
}

/// `     Total time: 0.753 [sec]`
fn total_time(out: &str) -> Option<f64> {
    after(out, "Total time:")
}

/// The number that follows a word.
fn after(out: &str, word: &str) -> Option<f64> {
    out.split_once(word)?.1.split_whitespace().next()?.trim_end_matches(',').parse().ok()
}

fn pingpong(ctx: &Ctx) -> Result<Load> {
    let of = |count: u64| {
        placed(true, words(&["perf", "bench", "sched", "pipe", "-l", &count.to_string()]))
    };
    let count = scaled(ctx, 30_000.0, trial(ctx, "pingpong", of(30_000), total_time)?);
    let slices = Slices::endless(of(1_000_000_000), |pid| Ok(slices::voluntary_switches(pid)));
    Ok(load("pingpong", of(count), slices, total_time))
}

fn messaging(ctx: &Ctx) -> Result<Load> {
    let of = |count: u64| {
        words(&["perf", "bench", "sched", "messaging", "-g", "10", "-l", &count.to_string()])
    };
    let count = scaled(ctx, 60.0, trial(ctx, "messaging", of(60), total_time)?);
    let slices = Slices::Runs(of(ctx.slice_of(count)));
    Ok(load("messaging", of(count), slices, total_time))
}

/// Keeps the kernel's unbound workers, who serve loop devices, on the first CPU. Left alone they come and go beside the
/// one who asks, and the pace of the same load is one of two.
fn one_place_for_workers(ctx: &Ctx) -> Result<Option<Guard>> {
    let mask = Path::new("/sys/devices/virtual/workqueue/cpumask");
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 || !mask.exists() {
        return Ok(None);
    }
    let guard = ctx.journal.guard(Undo::restore(mask)?)?;
    fs::write(mask, "1").with_context(|| format!("write {}", mask.display()))?;
    Ok(Some(guard))
}

fn fio(ctx: &Ctx) -> Result<Load> {
    let mut guards = Guards::new();
    let image = ctx.path("disk.img");
    guards.push(ctx.journal.guard(Undo::Remove { path: image.clone() })?);
    let mut file = fs::File::create(&image)?;
    // In pieces: what the bench holds would stand in its children's account.
    (0..128).try_for_each(|_| file.write_all(&[0x5a; 1 << 20]))?;
    drop(file);
    guards.push(ctx.journal.guard(Undo::Loop { backing: image.clone() })?);
    let made = std::process::Command::new("losetup")
        .args(["--find", "--show", &image.to_string_lossy()])
        .output()
        .context("run losetup")?;
    let device = String::from_utf8_lossy(&made.stdout).trim().to_string();
    if !device.starts_with("/dev/") {
        bail!(
            "no loop device: {}",
            crate::child::first_words(&String::from_utf8_lossy(&made.stderr))
        );
    }
    if let Some(guard) = one_place_for_workers(ctx)? {
        guards.push(guard);
    }
    let of = |seconds: f64| {
        placed(
            true,
            words(&[
                "fio",
                "--name=reads",
                &format!("--filename={device}"),
                "--rw=randread",
                "--bs=4k",
                "--direct=1",
                "--ioengine=psync",
                "--numjobs=1",
                // A job of its own session would outlive its guard.
                "--thread",
                "--randseed=1",
                "--time_based",
                &format!("--runtime={seconds:.0}"),
                "--output-format=json",
            ]),
        )
    };
    let name = device.clone();
    let slices = Slices::endless(of(86_400.0), move |_| slices::reads(&name));
    let mut load = load("fio", of(ctx.load_seconds.max(1.0)), slices, |out| {
        let value: serde_json::Value = serde_json::from_str(&out[out.find('{')?..]).ok()?;
        Some(1.0 / value.pointer("/jobs/0/read/iops")?.as_f64()?)
    });
    load._guards = guards;
    Ok(load)
}

/// A port of loopback that nobody listens on now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn wait_for_port(ctx: &Ctx, port: u16) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(8);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > until {
            bail!("the server does not listen");
        }
        ctx.sleep(Duration::from_millis(20))?;
    }
    Ok(())
}

fn redis(ctx: &Ctx) -> Result<Load> {
    let port = free_port()?;
    let text = port.to_string();
    let folder = ctx.path("redis");
    fs::create_dir_all(&folder)?;
    let folder = folder.to_string_lossy().into_owned();
    let server = words(&[
        "redis-server",
        "--port",
        &text,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        &folder,
        "--daemonize",
        "no",
    ]);
    let server = ctx.start(&placed(false, server))?;
    wait_for_port(ctx, port)?;
    let of = |count: u64, more: &[&str]| {
        let mut client = words(&["redis-benchmark", "-h", "127.0.0.1", "-p", &text]);
        client.extend(words(&["-t", "set,get", "-c", "20", "--csv", "-n", &count.to_string()]));
        client.extend(words(more));
        placed(true, client)
    };
    let each = trial(ctx, "redis", of(20_000, &[]), redis_figure)?;
    // SET and GET by turns, which are short beside a slice.
    let slices = Slices::endless(of(2_000, &["-l"]), move |_| slices::redis_commands(port));
    let mut load = load("redis", of(scaled(ctx, 1.0, each), &[]), slices, redis_figure);
    load.running.push(server);
    Ok(load)
}

/// `"SET","49504.95",...`: one SET and one GET.
fn redis_figure(out: &str) -> Option<f64> {
    let rate = |test: &str| -> Option<f64> {
        let line = out.lines().find(|line| line.starts_with(&format!("\"{test}\"")))?;
        line.split(',').nth(1)?.trim_matches('"').parse().ok()
    };
    Some(1.0 / rate("SET")? + 1.0 / rate("GET")?)
}

fn nginx(ctx: &Ctx) -> Result<Load> {
    let port = free_port()?;
    let folder = ctx.path("nginx");
    fs::create_dir_all(folder.join("www"))?;
    fs::write(folder.join("www/page.html"), "x".repeat(1024))?;
    let configuration = folder.join("nginx.conf");
    fs::write(&configuration, nginx_configuration(&folder, port))?;
    let server = words(&[
        "nginx",
        "-e",
        &folder.join("error.log").to_string_lossy(),
        "-p",
        &folder.to_string_lossy(),
        "-c",
        &configuration.to_string_lossy(),
    ]);
    let server = ctx.start(&placed(false, server))?;
    wait_for_port(ctx, port)?;
    let page = format!("http://127.0.0.1:{port}/page.html");
    let of = |seconds: f64| {
        let length = format!("{seconds:.0}s");
        placed(true, words(&["wrk", "-t", "1", "-c", "16", "-d", &length, &page]))
    };
    let slices = Slices::endless(of(86_400.0), move |_| slices::nginx_requests(port));
    let figure = |out: &str| Some(1.0 / after(out, "Requests/sec:")?);
    let mut load = load("nginx", of(ctx.load_seconds.max(1.0)), slices, figure);
    load.running.push(server);
    Ok(load)
}

fn nginx_configuration(folder: &Path, port: u16) -> String {
    let mut text = String::from("user root;\ndaemon off;\nworker_processes 1;\n");
    let _ = writeln!(text, "pid {}/nginx.pid;", folder.display());
    let _ = writeln!(text, "error_log {}/error.log;", folder.display());
    text.push_str("events { worker_connections 256; }\nhttp {\n  access_log off;\n");
    for what in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(text, "  {what}_temp_path {}/{what};", folder.display());
    }
    let _ = writeln!(
        text,
        "  server {{ listen 127.0.0.1:{port}; root {}/www; location = {} {{ stub_status; }} }}\n}}",
        folder.display(),
        slices::NGINX_STATUS
    );
    text
}

/// Functions in each generated C file; some 0.1 s of gcc -O2.
const FUNCTIONS: usize = 60;

fn compile(ctx: &Ctx) -> Result<Load> {
    let folder = ctx.path("compile");
    fs::create_dir_all(&folder)?;
    let write = |number: usize| fs::write(folder.join(format!("f{number}.c")), c_file(number));
    write(0)?;
    let place = folder.to_string_lossy().into_owned();
    let began = Instant::now();
    run(&["gcc", "-O2", "-c", "-o", "/dev/null", &format!("{place}/f0.c")])?;
    // Two at once.
    let files = scaled(ctx, 2.0, began.elapsed().as_secs_f64()).clamp(2, 400) as usize;
    (1..files).try_for_each(write)?;
    let objects: Vec<String> = (0..files).map(|number| format!("f{number}.o")).collect();
    // Even, so that both CPUs end together.
    let few = (ctx.slice_of(files as u64) as usize).next_multiple_of(2).min(files);
    let (all, some) = (objects.join(" "), objects[..few].join(" "));
    let rule = "%.o: %.c\n\tgcc -O2 -c -o $@ $<\n";
    fs::write(folder.join("Makefile"), format!("all: {all}\nslice: {some}\n{rule}"))?;
    let timed = ctx.own_load();
    let of = |target: &str| {
        words(&[&timed, "timed", "make", "--always-make", "-s", "-j2", "-C", &place, target])
    };
    Ok(load("compile", of("all"), Slices::Runs(of("slice")), total_time))
}

/// A C file that gives an optimiser something to do; the same on every machine.
fn c_file(seed: usize) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for number in 0..FUNCTIONS {
        let (a, b) = (seed * 31 + number * 7 + 3, seed * 17 + number * 13 + 5);
        let _ = writeln!(
            text,
            "int work_{seed}_{number}(int *x, int n) {{\n  int sum = {a};\n  for (int i = 0; i < n; i++) \
             {{\n    switch (x[i] % 7) {{ case 0: sum += i * {b}; break; case 1: sum ^= x[i] << 2; break;\n    \
             case 2: sum -= {a} / (i + 1); break; default: sum += x[(i * {b}) % n]; }}\n    if (sum > {a}{b}) \
             sum = x[n - 1 - i];\n  }}\n  return sum;\n}}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_the_programs_print_them() {
        assert_eq!(total_time("#\n     Total time: 0.753 [sec]\n"), Some(0.753));
        assert_eq!(after("Requests/sec:  20000.5\nTransfer", "Requests/sec:"), Some(20000.5));
        let redis = "\"test\",\"rps\"\n\"SET\",\"1000.00\",\"0.1\"\n\"GET\",\"500.00\",\"0.1\"\n";
        assert!((redis_figure(redis).unwrap() - 0.003).abs() < 1e-12);
        assert_eq!(redis_figure("nothing"), None);
    }

    #[test]
    fn generated_files_do_not_change() {
        assert_eq!(c_file(3), c_file(3));
        assert_ne!(c_file(3), c_file(4));
        assert_eq!(c_file(0).matches("int work_").count(), FUNCTIONS);
    }
}
