//! The `ibv_cmd_*` functions that providers call, a file per object.
