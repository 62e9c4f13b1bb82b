//! The way to an API server: the pod's service account, or a kubeconfig.

use std::path::Path;
use std::time::Duration;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::ClusterError;

/// A client for the cluster that the kubeconfig (and context) names, or else the one around this pod. It does not call
/// yet: an API server that is down shows later, call by call.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, ClusterError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unusable(&error))
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await.map_err(|error| unusable(&error)),
        None => Config::infer().await.map_err(|error| unusable(&error)),
    };
    let mut config = config?;
    config.connect_timeout = Some(Duration::from_secs(5));
    Client::try_from(config).map_err(|error| unusable(&error))
}

fn unusable(error: &dyn std::error::Error) -> ClusterError {
    ClusterError::Config { reason: format!("{error}; give --kubeconfig, or --offline to do without a cluster") }
}
