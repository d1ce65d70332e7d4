# A guest on which nothing happens.
look
