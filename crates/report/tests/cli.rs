//! The command line as it is typed: `cli/*.trycmd` holds what was typed and what came back.
//! Nothing here looks at a live host, whose answers differ: that is the lab's to test.
//! `TRYCMD=overwrite cargo test -p holdup --test cli` writes them anew: read the difference.

#[test]
fn answers_are_the_kept_ones() {
    trycmd::TestCases::new().env("NO_COLOR", "1").env("COLUMNS", "80").case("tests/cli/*.trycmd");
}
