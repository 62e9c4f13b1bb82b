//! The control plane of the mesh that Writ stands for: what it says decides which objects of the mesh may be written here.

use clap::{Args, ValueEnum};

use crate::compile::mesh::admission::{ControlPlane, DEFAULT_ZONE, Mode, SYSTEM_NAMESPACE};

#[derive(Debug, Args)]
#[command(next_help_heading = "Admission of mesh policies")]
pub(in crate::cli) struct ControlPlaneArgs {
    /// Whether the objects of this cluster belong to one zone, or to the global control plane above all zones.
    #[arg(long, env = "WRIT_KUMA_MODE", value_enum, default_value_t = Place::Zone)]
    kuma_mode: Place,
    /// The name of the zone; objects are labelled with it.
    #[arg(long, env = "WRIT_KUMA_ZONE", default_value = DEFAULT_ZONE)]
    kuma_zone: String,
    /// There is a global control plane above the zone: what has its home there is read-only here.
    #[arg(long, env = "WRIT_KUMA_FEDERATED")]
    kuma_federated: bool,
    /// The namespace of the operators. Policies there are for the whole mesh.
    #[arg(long, env = "WRIT_KUMA_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    kuma_system_namespace: String,
    /// Further users who may write every object of the mesh everywhere, separated by commas. The service account
    /// `kuma-control-plane` of the system namespace may, and so may those that clean up in every cluster.
    #[arg(long, env = "WRIT_KUMA_PRIVILEGED_USERS", value_delimiter = ',')]
    kuma_privileged_users: Vec<String>,
}

/// Where in a mesh of several zones this cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    Global,
    Zone,
}

impl ControlPlaneArgs {
    pub(in crate::cli) fn resolve(self) -> anyhow::Result<ControlPlane> {
        let Self { kuma_mode, kuma_zone, kuma_federated, kuma_system_namespace, kuma_privileged_users } = self;
        anyhow::ensure!(
            kuma_mode == Place::Zone || !kuma_federated,
            "--kuma-federated is about a zone, and --kuma-mode is global"
        );
        anyhow::ensure!(
            is_label(&kuma_zone),
            "--kuma-zone: `{kuma_zone}` cannot be the value of a label: up to 63 letters, digits and `-_.`"
        );
        let mode = match kuma_mode {
            Place::Global => Mode::Global,
            Place::Zone => Mode::Zone { name: kuma_zone, federated: kuma_federated },
        };
        Ok(ControlPlane::new(mode, kuma_system_namespace, kuma_privileged_users))
    }
}

fn is_label(text: &str) -> bool {
    let at_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63 && text.chars().all(inside) && at_end(text.chars().next()) && at_end(text.chars().next_back())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ControlPlaneArgs,
    }

    fn resolve(flags: &[&str]) -> Result<ControlPlane, String> {
        let line = Line::try_parse_from([&["writ"], flags].concat()).map_err(|error| error.to_string())?;
        line.args.resolve().map_err(|error| error.to_string())
    }

    #[test]
    fn a_zone_stands_alone_if_nothing_else_is_said() {
        assert_eq!(resolve(&[]), Ok(ControlPlane::default()));
    }

    #[test]
    fn flags_say_where_the_cluster_stands() {
        let plane = resolve(&["--kuma-zone=east", "--kuma-federated", "--kuma-privileged-users=ci,bob"]).unwrap();
        assert_eq!(plane.mode, Mode::Zone { name: "east".to_owned(), federated: true });
        assert_eq!(plane.privileged[..2], ["ci", "bob"]);
        let plane = resolve(&["--kuma-mode=global", "--kuma-system-namespace=mesh"]).unwrap();
        assert_eq!((plane.mode, plane.system_namespace.as_str()), (Mode::Global, "mesh"));
        assert!(plane.privileged.contains(&"system:serviceaccount:mesh:kuma-control-plane".to_owned()));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (flags, because) in [
            (&["--kuma-mode=global", "--kuma-federated"][..], "--kuma-federated is about a zone"),
            (&["--kuma-zone=a b"], "cannot be the value of a label"),
            (&["--kuma-zone="], "cannot be the value of a label"),
            (&["--kuma-mode=moon"], "invalid value"),
        ] {
            let refused = resolve(flags).unwrap_err();
            assert!(refused.contains(because), "{refused}");
        }
    }
}
