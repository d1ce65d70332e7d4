# The same guest, where nobody uses the isolated CPU.
look
