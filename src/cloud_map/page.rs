//! Reads lists page by page, for all `List` calls. Each page takes its own rate-limit permit, so that a long list does
//! not block urgent calls.

use aws_smithy_async::future::pagination_stream::PaginationStream;
use futures_util::Stream;
use futures_util::stream::try_unfold;

use super::{Call, CloudMap, Error};

impl CloudMap {
    /// The pages of a list as they arrive; `token` returns the next token of a page. The SDK's paginators stop without
    /// an error if a token repeats; such a list is incomplete, so an error is added here.
    pub(super) fn pages<Page, Problem>(
        &self,
        call: Call,
        pages: PaginationStream<Result<Page, Problem>>,
        token: impl Fn(&Page) -> Option<&str>,
        failed: impl Fn(&Problem) -> Error,
    ) -> impl Stream<Item = Result<Page, Error>> {
        let first = (pages, true, token, failed);
        try_unfold(first, move |(mut pages, has_more, token, failed)| async move {
            if !has_more {
                return Ok(None);
            }
            let _permit = self.permit(call).await;
            let page = pages.next().await.ok_or_else(|| repeated_token(call))?;
            let page = page.map_err(|problem| failed(&problem))?;
            let has_more = token(&page).is_some_and(|token| !token.is_empty());
            Ok(Some((page, (pages, has_more, token, failed))))
        })
    }
}

fn repeated_token(call: Call) -> Error {
    let problem = "the list repeats itself and does not end";
    Error::input(format!("read all pages of {call:?}"), &problem)
}
