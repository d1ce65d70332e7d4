//! pgbouncer: a pool of connections before PostgreSQL, with a console that speaks the same protocol.
//!
//! Edit together: postgres.rs.

use super::doors::Doors;
use super::postgres::psql;
use super::program::Program;

/// See the head of the file.
pub(super) static PGBOUNCER: Program =
    Program { names: &["pgbouncer"], question: Some(question), ..Program::UNKNOWN };

/// Its console is a database of that name, for whoever runs it. Whoever has a `link` has a connection to the server.
fn question(doors: &Doors, _: u32) -> String {
    format!("{} -U pgbouncer pgbouncer -x -c 'show pools' -c 'show clients'", psql(doors))
}
