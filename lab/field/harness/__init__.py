"""The harness of the field corpus: everything but the cases. No file names one that stands later in this list.

truth.py says what a case may know; processes.py ends processes and says where they stand; lab.py is the lab's program, which judges,
watches counters and undoes; groups.py limits processes; stage.py is where a case plays; ask.py asks holdup; score.py and page.py say
what it adds up to; play.py holds the order of it all; questioning.py puts holdup's questions to the programs.
"""
