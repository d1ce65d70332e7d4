# A command that sleeps on purpose.
ask run -- sleep 1
