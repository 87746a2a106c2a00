//! The value of IBV_EXPLAIN. Pure.

/// Where findings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<'a> {
    Stderr,
    /// Lines of text, appended to this file.
    File(&'a [u8]),
    /// A JSON object per line, appended to this file.
    Json(&'a [u8]),
}

/// What a value asks for; `Ok(None)` if nothing.
pub fn parse(value: &[u8]) -> Result<Option<Output<'_>>, &'static str> {
    let path = |path: &[u8]| match path {
        [] => Err("no file is named"),
        _ if path.contains(&0) => Err("the file name has a NUL"),
        _ => Ok(()),
    };
    match value {
        b"" | b"0" => Ok(None),
        b"1" => Ok(Some(Output::Stderr)),
        _ => {
            if let Some(file) = value.strip_prefix(b"file:") {
                path(file).map(|()| Some(Output::File(file)))
            } else if let Some(file) = value.strip_prefix(b"json:") {
                path(file).map(|()| Some(Output::Json(file)))
            } else {
                Err("expected 1, file:PATH or json:PATH")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(parse(b""), Ok(None));
        assert_eq!(parse(b"0"), Ok(None));
        assert_eq!(parse(b"1"), Ok(Some(Output::Stderr)));
        assert_eq!(parse(b"file:/a b"), Ok(Some(Output::File(b"/a b"))));
        assert_eq!(parse(b"json:x"), Ok(Some(Output::Json(b"x"))));
        for wrong in [&b"2"[..], b"yes", b"file:", b"json:", b"/tmp/x"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
