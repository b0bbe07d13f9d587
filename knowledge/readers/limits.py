"""What one file may cost. Beyond a limit a file is refused, not cut: an answer must not be missing in silence."""

MIB = 2**20
FILE_BYTES = 100 * MIB
PAGES = 2_000
CHARACTERS = 5_000_000
"""A page of Chinese is about 1,000."""
INFLATED_BYTES = 256 * MIB
"""All members of a zip together; pictures inside count."""
PART_BYTES = 64 * MIB
"""One XML part: ten times that in memory, once parsed; 1,000 pages of Word take about 20."""
RATIO = 150
"""Inflated to packed, of a part beyond RATIO_FROM. Sheets of repeated values reach 50; bombs start near 1,000."""
RATIO_FROM = 4 * MIB
MEMBERS = 10_000
CPU_S = 60
WALL_S = 600
"""Long: at the lowest priority a file waits while answers are made."""
ADDRESS_SPACE = 1_024 * MIB
RESULT_BYTES = 128 * MIB
"""What a reading process may say."""
HEADING = 80
"""Characters of a heading that go with each text below it."""
