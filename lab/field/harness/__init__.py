"""The harness of the field corpus: everything but the cases. No file names one that stands later in this list.

truth.py says what a case may know; processes.py ends processes and says where they stand; groups.py limits them; stage.py is
where a case plays; clean.py undoes what a killed run has left; simple_rules.py is what the counters alone would say; ask.py
asks holdup; judge.py says what is right; score.py and page.py what it adds up to; play.py holds the order of it all; questioning.py puts holdup's questions to the programs.
"""
