//! Regions and windows: their keys and rights, and every copy from and to the program's memory.
