//! Lines of a report: labels, wrapping by display width, and colour where it was asked for.
//!
//! Owns the layout (2 columns of indent, labels of 8, 80 columns). Callers hand over text that
//! `escape` has already made harmless; the only control characters that this file adds are the line
//! feed and, if colours are on, the sequences of `anstyle`. Whoever draws on a screen of its own takes the lines with their tones.

use anstyle::{AnsiColor, Style};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::UnicodeWidthStr;

/// What a label and its gap take.
const LABEL: usize = 8;
/// Indent of everything below a verdict.
const INDENT: usize = 2;

/// What a piece of text is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Plain.
    Plain,
    /// A verdict that somebody waits badly.
    Critical,
    /// A verdict that somebody waits.
    Warning,
    /// A verdict that all is well.
    Good,
    /// A heading.
    Heading,
    /// A label, or what may be skipped.
    Faint,
    /// A command to type.
    Command,
}

/// A text of one tone.
pub(crate) type Piece = (Tone, String);

/// A report in the making.
#[derive(Debug)]
pub(crate) struct Page {
    /// In their order; lines end within plain ones.
    pieces: Vec<Piece>,
    width: usize,
    colour: bool,
}

impl Page {
    /// An empty page of that many columns.
    pub(crate) fn new(width: usize, colour: bool) -> Self {
        Self { pieces: Vec::new(), width: width.max(40), colour }
    }

    /// The finished text.
    pub(crate) fn finish(self) -> String {
        let colour = self.colour;
        self.pieces.iter().map(|(tone, text)| painted(*tone, text, colour)).collect()
    }

    /// The same as lines of pieces, without line feeds or colours.
    pub(crate) fn lines(self) -> Vec<Vec<Piece>> {
        let mut lines = vec![Vec::new()];
        for (tone, text) in self.pieces {
            for (at, part) in text.split('\n').enumerate() {
                if at > 0 {
                    lines.push(Vec::new());
                }
                if let Some(line) = lines.last_mut().filter(|_| !part.is_empty()) {
                    line.push((tone, part.to_owned()));
                }
            }
        }
        // The last line feed ends a line, and begins none.
        lines.pop_if(|line| line.is_empty());
        lines
    }

    /// Columns right of a label.
    pub(crate) fn columns_labelled(&self) -> usize {
        self.width - INDENT - LABEL
    }

    /// Parts the page from what another program wrote before it.
    pub(crate) fn start_on_a_new_line(&mut self) {
        self.plain("\n");
    }

    /// An empty line.
    pub(crate) fn gap(&mut self) {
        if self.pieces.iter().any(|(_, text)| !text.trim_matches('\n').is_empty()) {
            self.plain("\n");
        }
    }

    /// A verdict or a heading, from the left edge.
    pub(crate) fn verdict(&mut self, text: &str, tone: Tone) {
        self.wrapped(text, tone, "", "");
    }

    /// A paragraph.
    pub(crate) fn paragraph(&mut self, text: &str) {
        let indent = " ".repeat(INDENT);
        self.wrapped(text, Tone::Plain, &indent, &indent);
    }

    /// A list item.
    pub(crate) fn item(&mut self, text: &str) {
        self.wrapped(text, Tone::Plain, "  - ", "    ");
    }

    /// A labelled paragraph.
    pub(crate) fn labelled(&mut self, label: &str, text: &str) {
        let hang = " ".repeat(INDENT + LABEL);
        let lines = wrap(text, self.columns_labelled());
        for (at, line) in lines.iter().enumerate() {
            if at == 0 {
                self.label(label);
            } else {
                self.plain(&hang);
            }
            self.plain(line);
            self.plain("\n");
        }
    }

    /// A labelled command, whole, so that it can be copied: it is only ever broken with a
    /// backslash where a shell allows it.
    pub(crate) fn command(&mut self, label: &str, command: &str) {
        let hang = " ".repeat(INDENT + LABEL);
        for (at, line) in shell_lines(command, self.columns_labelled()).iter().enumerate() {
            if at == 0 {
                self.label(label);
            } else {
                self.plain(&hang);
            }
            self.paint(line, Tone::Command);
            self.plain("\n");
        }
    }

    /// Labelled pieces that are joined by `joint` and only broken there (a chain), unless one is longer than a line.
    pub(crate) fn joined(&mut self, label: &str, pieces: &[String], joint: &str) {
        let room = self.columns_labelled();
        let hang = " ".repeat(INDENT + LABEL);
        let mut used = 0;
        self.label(label);
        for (at, piece) in pieces.iter().enumerate() {
            let needed = piece.width() + if at > 0 { joint.width() } else { 0 };
            if at > 0 && used + needed > room {
                self.plain("\n");
                self.plain(&hang);
                used = 0;
            }
            if at > 0 {
                let joint = if used == 0 { joint.trim_start() } else { joint };
                self.paint(joint, Tone::Faint);
                used += joint.width();
            }
            let rest = room.saturating_sub(used);
            if piece.width() <= rest {
                self.plain(piece);
                used += piece.width();
                continue;
            }
            // It stands behind a joint at the begin of a line.
            let begin = joint.trim_start().width();
            let below = format!("\n{hang}{}", " ".repeat(begin));
            let lines = wrap(piece, room.saturating_sub(begin));
            self.plain(&lines.join(&below));
            used = begin + lines.last().map_or(0, |line| line.width());
        }
        self.plain("\n");
    }

    /// A line as it is, for what is drawn of characters.
    pub(crate) fn drawn(&mut self, line: &str) {
        self.plain(line);
        self.plain("\n");
    }

    /// A row of a table: figures as they are, then words that wrap beside them.
    pub(crate) fn row(&mut self, figures: &str, words: &str, tone: Tone) {
        let first = format!("{}{figures}  ", " ".repeat(INDENT));
        let rest = " ".repeat(first.width());
        for (at, line) in wrap(words, self.width.saturating_sub(rest.len())).iter().enumerate() {
            let start = if at == 0 { &first } else { &rest };
            self.paint(&format!("{start}{line}"), tone);
            self.plain("\n");
        }
    }

    fn label(&mut self, label: &str) {
        self.plain(&" ".repeat(INDENT));
        self.paint(label, Tone::Faint);
        self.plain(&" ".repeat(LABEL.saturating_sub(label.width()).max(1)));
    }

    fn wrapped(&mut self, text: &str, tone: Tone, first: &str, rest: &str) {
        for (at, line) in wrap(text, self.width - rest.width()).iter().enumerate() {
            self.plain(if at == 0 { first } else { rest });
            self.paint(line, tone);
            self.plain("\n");
        }
    }

    fn plain(&mut self, text: &str) {
        self.paint(text, Tone::Plain);
    }

    fn paint(&mut self, text: &str, tone: Tone) {
        self.pieces.push((tone, text.to_owned()));
    }
}

fn painted(tone: Tone, text: &str, colour: bool) -> String {
    let style = match tone {
        _ if !colour => Style::new(),
        Tone::Plain => Style::new(),
        Tone::Critical => AnsiColor::Red.on_default().bold(),
        Tone::Warning => AnsiColor::Yellow.on_default().bold(),
        Tone::Good => AnsiColor::Green.on_default().bold(),
        Tone::Heading => Style::new().bold(),
        Tone::Faint => Style::new().dimmed(),
        Tone::Command => AnsiColor::Cyan.on_default(),
    };
    format!("{style}{text}{style:#}")
}

/// Lines of at most `width` columns, broken at spaces, inside words only where nothing else helps.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width.max(10))
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(|line| line.into_owned()).collect()
}

/// A command on lines that a shell joins again: broken at spaces outside quotes with a backslash. Its comment, which a
/// backslash does not continue, stands on lines of its own.
fn shell_lines(command: &str, width: usize) -> Vec<String> {
    const COMMENT: &str = "#";
    if command.width() <= width {
        return vec![command.to_owned()];
    }
    let mut lines = Vec::new();
    let mut current = String::new();
    let words = shell_words(command);
    let comment_at = words.iter().position(|word| word == COMMENT).unwrap_or(words.len());
    let (words, comment) = words.split_at(comment_at);
    for word in words {
        let needed = current.width() + 1 + word.width() + 2;
        if !current.is_empty() && needed > width {
            lines.push(format!("{current} \\"));
            current = format!("  {word}");
        } else {
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
    }
    lines.push(current);
    if let [_, comment @ ..] = comment {
        let room = width.saturating_sub(COMMENT.len() + 1);
        let of_comment = wrap(&comment.join(" "), room);
        lines.extend(of_comment.into_iter().map(|line| format!("{COMMENT} {line}")));
    }
    lines
}

/// Splits at spaces outside quotes; quotes and backslashes stay where they are.
fn shell_words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut escaped = false;
    for c in command.chars() {
        let open = quote.is_some() || escaped;
        if c == ' ' && !open {
            words.push(String::new());
            continue;
        }
        match (quote, c) {
            (None, '\'' | '"') if !escaped => quote = Some(c),
            (Some(mark), c) if c == mark && !escaped => quote = None,
            _ => {}
        }
        escaped = !escaped && c == '\\' && quote != Some('\'');
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_break_where_a_shell_joins_them() {
        let command = r#"echo "252:0 50 and more words" > /sys/fs/cgroup/blkio/docker/write_iops"#;
        let lines = shell_lines(command, 40);
        assert_eq!(
            lines,
            [r#"echo "252:0 50 and more words" > \"#, "  /sys/fs/cgroup/blkio/docker/write_iops"]
        );
        assert_eq!(shell_lines("true", 40), ["true"]);
        let asks = "gdb -p 10 -batch -ex 'bt'   # stops it for a moment, and no longer";
        assert_eq!(
            shell_lines(asks, 28),
            ["gdb -p 10 -batch -ex 'bt'", "# stops it for a moment, and", "# no longer"]
        );
    }

    #[test]
    fn chains_break_at_their_joints() {
        let mut page = Page::new(40, false);
        let pieces = ["nginx 812", "pipe log (3.55 s)", "logger 97"].map(str::to_owned);
        page.joined("chain", &pieces, " <- ");
        assert_eq!(
            page.finish(),
            "  chain   nginx 812 <- pipe log (3.55 s)\n          <- logger 97\n"
        );
    }

    #[test]
    fn a_piece_that_is_longer_than_a_line_goes_on_below_itself() {
        let mut page = Page::new(40, false);
        let pieces =
            ["nginx 812", "python3 search-agent77 8574 in 5619730bb3e5"].map(str::to_owned);
        page.joined("chain", &pieces, " <- ");
        assert_eq!(
            page.finish(),
            "  chain   nginx 812\n          <- python3 search-agent77 8574\n             in 5619730bb3e5\n"
        );
    }

    #[test]
    fn lines_are_the_text_with_its_tones() {
        let mut page = Page::new(40, true);
        page.verdict("x is slow.", Tone::Critical);
        page.gap();
        page.labelled("by", "y");
        let lines = page.lines();
        assert_eq!(lines[0], [(Tone::Critical, "x is slow.".to_string())]);
        let text = |line: &Vec<Piece>| line.iter().map(|(_, text)| text.as_str()).collect();
        let texts: Vec<String> = lines.iter().map(text).collect();
        assert_eq!(texts, ["x is slow.", "", "  by      y"]);
    }

    #[test]
    fn colour_only_when_asked() {
        for colour in [false, true] {
            let mut page = Page::new(80, colour);
            page.verdict("x is slow.", Tone::Critical);
            assert_eq!(page.finish().contains('\x1b'), colour);
        }
    }
}
