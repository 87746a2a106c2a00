//! Huge pages of 2 MiB, which the scenes reserve.

use super::*;

const NUMBER: &str = "/proc/sys/vm/nr_hugepages";

/// Huge pages that are reserved while this value lives; as many as there were after that.
struct Reserved(Option<u32>);

impl Reserved {
    fn new() -> Result<Self, Failure> {
        let before = number();
        let mut reserved = Self(None);
        if before < 8 && fs::write(NUMBER, "8").is_ok() {
            reserved.0 = Some(before);
        }
        if number() < 4 {
            let why = format!(
                "no huge pages: {NUMBER} is {} and cannot be raised",
                number()
            );
            return Err(Failure::skip(why));
        }
        Ok(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = fs::write(NUMBER, before.to_string());
        }
    }
}

fn number() -> u32 {
    read(NUMBER.as_ref()).trim().parse().unwrap_or(0)
}

pub fn checks(kernel: ForkKernel) -> Vec<Check> {
    let without = both(kernel, "", &["forkhuge", "two"]);
    let file = "huge-pages-without-RDMAV_HUGEPAGES_SAFE";
    let mut list = vec![reserving("without-RDMAV_HUGEPAGES_SAFE", file, without)];
    for scene in ["parts", "two", "advised"] {
        list.push(safe(kernel, scene, &["forkhuge", scene]));
    }
    for (scene, file) in [
        ("into", "huge-pages-into"),
        ("out-of", "huge-pages-out-of"),
        ("remapped", "huge-pages-remapped"),
        ("unmapped", "huge-pages-unmapped"),
    ] {
        let scene_of = with_variable(kernel, scene, &["forkhuge", scene]);
        list.push(reserving(scene, file, scene_of));
    }
    for seed in ["5", "6"] {
        let name = format!("model-seed-{seed}");
        list.push(safe(
            kernel,
            &name,
            &["forkmodel", seed, kernel.steps, "huge"],
        ));
    }
    let across = ["forkmodel", "7", kernel.steps, "huge", "across", "holes"];
    list.push(reserving(
        "model-with-ranges-across",
        "model-with-huge-pages-and-ranges-across",
        with_variable(kernel, "", &across),
    ));
    list
}

/// A scene with the variable set: any value will do.
fn with_variable(kernel: ForkKernel, name: &str, argv: &[&str]) -> Scene {
    both(kernel, name, argv).env("RDMAV_HUGEPAGES_SAFE", "0")
}

fn safe(kernel: ForkKernel, name: &str, argv: &[&str]) -> Check {
    let scene = with_variable(kernel, name, argv);
    Check::new(name, move |cx| {
        let _reserved = Reserved::new()?;
        scene.compared(cx)
    })
}

fn reserving(name: &str, file: &'static str, scene: Scene) -> Check {
    Check::new(name, move |cx| {
        let _reserved = Reserved::new()?;
        as_expected(cx, file, &scene)
    })
}
