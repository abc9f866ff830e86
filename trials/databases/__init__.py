"""Database servers of a test's own: started under a temporary folder, and gone afterwards."""
