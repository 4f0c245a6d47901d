//! Creates missing HTTP namespaces, each at most once in an invocation. The Services that need the same namespace share
//! the result.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::create_http_namespace::CreateHttpNamespaceError;
use aws_sdk_servicediscovery::operation::list_namespaces::ListNamespacesOutput;
use aws_sdk_servicediscovery::types::{NamespaceFilter, NamespaceFilterName, NamespaceType, Tag};
use futures_util::TryStreamExt;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::operation::Ended;
use super::tag::OWNER_TAG;
use super::write::{Accepted, operation};
use super::{Call, Class, CloudMap, Error};
use crate::model::NamespaceKind;

type Created = OnceCell<Result<String, Arc<Error>>>;

/// The results of an invocation, by namespace name.
#[derive(Debug, Default)]
pub struct NewNamespaces(Mutex<BTreeMap<String, Arc<Created>>>);

impl NewNamespaces {
    fn cell(&self, name: &str) -> Arc<Created> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry(name.to_owned()).or_default().clone()
    }

    /// The ARN of a namespace that this invocation has created or found.
    pub fn arn(&self, name: &str) -> Option<String> {
        self.cell(name).get()?.as_ref().ok().cloned()
    }
}

impl CloudMap {
    /// The ARN of the HTTP namespace `name`, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the namespace could not be created or found before `until`.
    pub async fn ensure_namespace(
        &self,
        created: &NewNamespaces,
        name: &str,
        owner: &str,
        until: Instant,
    ) -> Result<String, Arc<Error>> {
        let cell = created.cell(name);
        let create = || async { self.create_namespace(name, owner, until).await.map_err(Arc::new) };
        cell.get_or_init(create).await.clone()
    }

    async fn create_namespace(
        &self,
        name: &str,
        owner: &str,
        until: Instant,
    ) -> Result<String, Error> {
        let ended = match self.create_http_namespace(name, owner).await {
            Ok(Accepted::Operation(operation) | Accepted::Busy(operation)) => {
                let kind = (Call::CreateHttpNamespace, NamespaceKind::Http);
                self.wait(&operation, kind, None, until).await?
            }
            Err(error) if error.class == Class::Exists => Ended::Success,
            Err(error) => return Err(error),
        };
        // If another client created it first, the operation may fail, so the list decides.
        let found = self.find_http_namespace(name).await?;
        found.ok_or_else(|| {
            let problem = match ended {
                Ended::Success => "it is not in the list of namespaces".to_owned(),
                Ended::Fail { code, message } => format!("{code}: {message}"),
                Ended::Pending => "the operation has not ended in time".to_owned(),
            };
            Error::input(action(name), &problem)
        })
    }

    async fn create_http_namespace(&self, name: &str, owner: &str) -> Result<Accepted, Error> {
        let _permit = self.permit(Call::CreateHttpNamespace).await;
        let tag = Tag::builder().key(OWNER_TAG).value(owner).build();
        let tag = tag.map_err(|error| Error::input(action(name), &error))?;
        let request = self.client.create_http_namespace().name(name).tags(tag);
        let request = request.description(format!("cloud-map-sync: created for {owner}"));
        match request.send().await {
            Ok(accepted) => operation(accepted.operation_id, || action(name)),
            Err(error) => match duplicate(&error) {
                Some(operation) => Ok(Accepted::Busy(operation)),
                None => Err(Error::new(action(name), &error)),
            },
        }
    }

    async fn find_http_namespace(&self, name: &str) -> Result<Option<String>, Error> {
        let action = || format!("find the Cloud Map namespace {name}");
        let filter =
            NamespaceFilter::builder().name(NamespaceFilterName::Name).values(name).build();
        let filter = filter.map_err(|error| Error::input(action(), &error))?;
        let pages = self.client.list_namespaces().filters(filter).into_paginator().send();
        let token = ListNamespacesOutput::next_token;
        let failed = |error: &SdkError<_, _>| Error::new(action(), error);
        let pages = self.pages(Call::ListNamespaces, pages, token, failed);
        let pages: Vec<ListNamespacesOutput> = pages.try_collect().await?;
        let missing = || Error::missing_member(action(), "Namespaces");
        let lists = pages.into_iter().map(|page| page.namespaces.ok_or_else(missing));
        let mut found = lists.collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
        let found = found.find(|found| found.r#type == Some(NamespaceType::Http));
        Ok(found.and_then(|found| found.arn))
    }
}

fn action(name: &str) -> String {
    format!("create the Cloud Map namespace {name}")
}

fn duplicate<R>(error: &SdkError<CreateHttpNamespaceError, R>) -> Option<String> {
    match error.as_service_error()? {
        CreateHttpNamespaceError::DuplicateRequest(duplicate) => {
            duplicate.duplicate_operation_id().map(str::to_owned)
        }
        _ => None,
    }
}
