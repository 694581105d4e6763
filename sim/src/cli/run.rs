//! `squall run`: every scenario with every seed, told as they are done, judged together.

use super::plan::{self, Case, Mistakes};
use super::{Format, Io, RunArgs, find, human, timeline};
use crate::run::store::Keep;
use crate::run::sweep::{self, News};
use crate::run::{Done, Exit, Failure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Where runs are kept if `--out` names no other place.
const OUT: &str = "reports/runs";

pub fn run(args: &RunArgs, io: &mut Io) -> Exit {
    let files = match find::scenarios(&io.here, &args.paths) {
        Ok(files) => files,
        Err(error) => return io.usage(&error.to_string()),
    };
    let (cases, mistakes) = plan::read(files);
    if !mistakes.is_empty() {
        return io.mistakes(&mistakes);
    }
    let mistakes: Mistakes = plan::try_settings(&cases, &args.set);
    if !mistakes.is_empty() {
        return io.mistakes(&mistakes);
    }
    let mut results: Box<dyn Write> = match &args.output {
        None => Box::new(io::stdout()),
        Some(path) => match File::create(path) {
            Ok(file) => Box::new(io::BufWriter::new(file)),
            Err(error) => return io.usage(&format!("failed to write {}: {error}", path.display())),
        },
    };
    let told = tell(args, &cases, io, &mut results);
    match told.and_then(|exit| results.flush().map(|()| exit)) {
        Ok(exit) => exit,
        // Whoever reads the results has had enough of them.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Held,
        Err(error) => {
            io.complain(&format!("failed to write the results: {error}"));
            Exit::Internal
        }
    }
}

fn tell(args: &RunArgs, cases: &[Case], io: &mut Io, results: &mut dyn Write) -> io::Result<Exit> {
    let entries = plan::entries(cases, &args.seeds());
    let keep = match &args.out {
        Some(dir) => Keep::All(dir.clone()),
        None => Keep::Telling(io.here.join(OUT)),
    };
    let threads = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    sweep::keep_panics();
    let bar = progress(entries.len(), io);
    let paint = if args.output.is_none() { io.paint } else { io.plain() };
    let mut exits: Vec<Exit> = Vec::new();
    let mut failed: io::Result<()> = Ok(());
    let watch = crate::run::job::Watch::start();
    sweep::sweep(
        entries.len(),
        threads,
        |index| plan::job(cases, entries[index], &args.set, args.verify_determinism).run(&keep),
        |news| {
            let (index, result) = match news {
                News::Count(done) => {
                    bar.set_position(done as u64);
                    return ControlFlow::Continue(());
                }
                News::Done(index, result) => (index, result),
            };
            let name = &cases[entries[index].case].found.name;
            let told = bar.suspend(|| match (&result, args.format) {
                (Ok(done), Format::Human) => {
                    results.write_all(human::run(done, paint).as_bytes())?;
                    if args.timeline {
                        let text = timeline::draw(&done.verdict.axes, &done.bands, io.width, paint);
                        results.write_all(text.as_bytes())?;
                    }
                    Ok(())
                }
                (Ok(done), Format::Json) => {
                    serde_json::to_writer(&mut *results, &done.verdict)?;
                    results.write_all(b"\n")?;
                    if let Some(difference) = &done.difference {
                        io.complain(&format!("{name} seed {}: DETERMINE-1: {difference}", entries[index].seed));
                    }
                    Ok(())
                }
                (Err(failure), _) => {
                    io.complain(&format!("{name} seed {}: internal error: {failure}", entries[index].seed));
                    Ok(())
                }
            });
            exits.push(exit(&result));
            if told.is_err() {
                failed = told;
                return ControlFlow::Break(());
            }
            let stop = args.fail_fast && exits.last() != Some(&Exit::Held);
            if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    bar.finish_and_clear();
    failed?;
    if args.format == Format::Human {
        writeln!(results, "{}", human::summary(entries.len(), &exits, watch.seconds(), paint))?;
        if let Keep::All(dir) = &keep {
            writeln!(results, "kept in {}", dir.display())?;
        }
    }
    Ok(exits.into_iter().max().unwrap_or_default())
}

fn exit(result: &Result<Done, Failure>) -> Exit {
    match result {
        Ok(done) => done.exit(),
        Err(Failure::Panicked(_) | Failure::Store { .. } | Failure::Simulation(_)) => Exit::Internal,
    }
}

/// A bar on a terminal, nothing anywhere else.
fn progress(runs: usize, io: &Io) -> ProgressBar {
    if !io.stderr_is_terminal || runs < 2 {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left")
        .expect("the template names only what indicatif has");
    ProgressBar::new(runs as u64).with_style(style)
}
