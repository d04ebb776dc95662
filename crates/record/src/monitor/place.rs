//! The place of a process: its pod, container and systemd unit, from the name of its control group.
//!
//! | who names it | name |
//! |---|---|
//! | Kubernetes with systemd | `…/kubepods-burstable-podUID.slice/cri-containerd-ID.scope`, with `_` for `-` in the UID |
//! | Kubernetes with cgroupfs | `/kubepods/burstable/podUID/ID` |
//! | Docker, Podman | `/system.slice/docker-ID.scope`, `/docker/ID`, `…/libpod-ID.scope` |
//! | systemd | `/system.slice/puma.service`, also with groups of its own below |

/// The place of a process. What the name does not tell is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The pod's UID, as Kubernetes writes it.
    pub pod: Option<String>,
    /// The container's ID: its first [`CONTAINER_DIGITS`] digits, as `docker ps` and `crictl ps` show.
    pub container: Option<String>,
    /// The systemd unit: a service, or a scope that is no container.
    pub unit: Option<String>,
}

/// Number of digits of a container's ID that are kept.
pub const CONTAINER_DIGITS: usize = 12;

impl Place {
    /// Reads the name of a control group.
    #[must_use]
    pub fn of(cgroup: &str) -> Self {
        let parts = || cgroup.split('/').filter(|part| !part.is_empty());
        let container = parts().rev().find_map(container);
        let pod = parts().find_map(pod);
        // The unit of a container is its runtime's business.
        let unit = match container {
            Some(_) => None,
            None => parts().rev().find(|part| is_unit(part)).map(str::to_owned),
        };
        Place { pod, container, unit }
    }
}

fn is_unit(part: &str) -> bool {
    part.ends_with(".service") || part.ends_with(".scope")
}

fn container(part: &str) -> Option<String> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit('-').next()?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.chars().take(CONTAINER_DIGITS).collect())
}

fn pod(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = name.rsplit_once("pod")?;
    let of_pod = before.is_empty() || before.ends_with('-');
    let uid = uid.replace('_', "-");
    // 8-4-4-4-12 digits, or the 32 of a static pod's hash.
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uid = digits == 32 && uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    (of_pod && is_uid).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "3f1c6a9e-7d5b-4f0a-9a55-0c1d2e3f4a5b";

    fn place(pod: Option<&str>, container: Option<&str>, unit: Option<&str>) -> Place {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Place { pod: owned(pod), container: owned(container), unit: owned(unit) }
    }

    #[test]
    fn pods_are_named_by_both_drivers() {
        let expected = place(Some(UID), Some("0123456789ab"), None);
        let systemd = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{ID}.scope",
            UID.replace('-', "_")
        );
        assert_eq!(Place::of(&systemd), expected);
        assert_eq!(Place::of(&format!("/kubepods/burstable/pod{UID}/{ID}")), expected);
        assert_eq!(Place::of(&format!("/kubepods/pod{UID}/{ID}")), expected, "guaranteed");
    }

    #[test]
    fn containers_without_a_pod() {
        for name in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
        ] {
            assert_eq!(Place::of(&name), place(None, Some("0123456789ab"), None), "{name}");
        }
    }

    #[test]
    fn units_and_what_has_none() {
        assert_eq!(Place::of("/system.slice/puma.service"), place(None, None, Some("puma.service")));
        assert_eq!(
            Place::of("/system.slice/system-puma.slice/puma@1.service/workers"),
            place(None, None, Some("puma@1.service"))
        );
        for name in ["/", "", "/user.slice", "/podium/x", "/pod-of-whales"] {
            assert_eq!(Place::of(name), Place::default(), "{name}");
        }
    }
}
